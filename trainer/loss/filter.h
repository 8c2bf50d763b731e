#pragma once

// What a train-rollout mismatch filter sees and says. A filter is a pure function over plain arrays: no torch, no state,
// no I/O, so that the reward lab replays it on recorded episodes. The functions themselves live in trainer/loss/filters.
//
// Two questions are answered apart, because papers answer them differently:
//   weight   what the token's policy-gradient term is multiplied with (0: the token gives no gradient)
//   counted  whether the token stays in the loss denominator. A rejected token that stays makes the step smaller, one
//            that leaves keeps the step's size; MirrorPop (MusaCoder, eq. 20-21) as implemented elsewhere leaves
//            denominators as they were, sequence masking elsewhere takes the token out. Each filter says which.
// Weights are detached from the gradient by construction: they are numbers computed before the backward pass.

#include <cstdint>
#include <functional>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "absl/status/status.h"

namespace hone::trainer {

/// Response tokens of a batch, sequence after sequence. All spans are borrowed for the call.
struct FilterBatch {
  std::span<const float> train_log_probs;    // [tokens] log pi_train,old(a_t): the learner's weights before the update
  std::span<const float> rollout_log_probs;  // [tokens] log pi_rollout(a_t): as sampled
  std::span<const float> mask;               // [tokens] 1 where the token is trained on, else 0 (tool output, prompt)
  std::span<const int64_t> offsets;          // [sequences + 1] sequence i is tokens [offsets[i], offsets[i+1])
  std::span<const float> advantages;         // [sequences]

  int64_t sequences() const { return static_cast<int64_t>(offsets.size()) - 1; }
  int64_t tokens() const { return static_cast<int64_t>(train_log_probs.size()); }
  /// log rho_t = log pi_train,old - log pi_rollout. Positive: the learner likes the token better than the sampler did.
  float LogRatio(int64_t token) const { return train_log_probs[token] - rollout_log_probs[token]; }
};

/// The verdict on every token. Filters of a chain multiply into the same decision: a token dropped by one stays dropped.
struct FilterDecision {
  std::vector<float> weight;      // [tokens] >= 0, finite
  std::vector<uint8_t> counted;   // [tokens] 1: in the denominator
  std::map<std::string, double> stats;  // "mirrorpop/rejected_share", ...: for the metrics of the step

  static FilterDecision KeepAll(int64_t tokens) {
    return {std::vector<float>(tokens, 1.0f), std::vector<uint8_t>(tokens, 1), {}};
  }
};

/// Narrows `decision`. kInvalidArgument: spans of unequal length, offsets that do not cover the tokens in order.
/// A log-ratio that is not finite on a masked-in token rejects (never keeps) the token or its sequence.
using LossFilter = std::function<absl::Status(const FilterBatch& batch, FilterDecision& decision)>;

}  // namespace hone::trainer
