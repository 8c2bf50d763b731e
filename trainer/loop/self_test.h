#pragma once

// Before training: do sampler and learner mean the same by a log-probability? A policy whose two halves disagree trains
// on noise, and nothing later says so.

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "policy/model/decoder.h"
#include "rollout/engine/engine.h"
#include "trainer/comm/communicator.h"

namespace hone::trainer {

struct SelfTestOptions {
  double temperature = 1;
  int64_t tokens = 32;              // sampled and compared
  double mean_limit = 1e-3;         // of |log pi_learner - log pi_engine|, over the tokens
  std::vector<int32_t> prompt_ids;  // the probe
};

struct SelfTestReport {
  double mean_gap = 0, largest_gap = 0;  // learner against engine
  double learner_error = 0;              // mean gap of the learner's packed scores to a plain computation
  double engine_error = 0;               // of the engine's
  int64_t tokens = 0;
};

/// Samples the probe, scores the sample the learner's way (packed with another sequence) and a plain way (alone, whole
/// logits, fp64 softmax). kFailedPrecondition when the mean gap is over the limit: names the side that is further from
/// the plain computation, both gaps and the first token that differs by more. Errors of engine and decoder.
absl::StatusOr<SelfTestReport> TestLogProbs(rollout::Engine& engine, policy::Decoder& decoder,
                                            const SelfTestOptions& options);

/// Every rank tells every other one its number and gets the right sum back. kInternal names the rank with wrong
/// numbers.
absl::Status TestCollectives(Communicator& ranks, const at::Device& device);

}  // namespace hone::trainer
