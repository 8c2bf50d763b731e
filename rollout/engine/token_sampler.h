#pragma once

// One token out of one row of logits.

#include <cstdint>

#include "rollout/engine/engine.h"

namespace hone::rollout {

struct TokenDraw {
  int32_t id = -1;      // -1: a logit is NaN, or all are -infinity
  float log_prob = 0;   // see Sample::log_probs
};

/// `uniform` in (0, 1) decides: the token whose interval of the cumulative distribution, ids ascending, holds it.
/// Without filters the log-prob has the same bits as the learner's TokenLogProbs over the same logits.
/// Deterministic, thread-safe.
TokenDraw DrawToken(const float* logits, int64_t vocab, const SamplingOptions& options, double uniform);

}  // namespace hone::rollout
