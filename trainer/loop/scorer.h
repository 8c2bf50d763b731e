#pragma once

// Log-probs of given tokens under a policy, without gradients: old and reference policies, and the self-test.

#include <vector>

#include "absl/status/statusor.h"
#include "policy/model/decoder.h"
#include "trainer/comm/communicator.h"
#include "trainer/data/sequence.h"

namespace hone::trainer {

/// result[i] [ids of sequence i]: log pi(ids[t] | ids[0, t)) at `temperature` where loss_mask is 1, 0 elsewhere.
/// With `ranks` all of them score, each its own sequences. With `share_prefixes` a prompt that several have is computed once.
/// Without it, on the CPU in fp32 the same bits as the native engine's log-probs, whatever the token budget.
absl::StatusOr<std::vector<std::vector<float>>> ScoreSequences(policy::Decoder& decoder,
                                                               const std::vector<TrainSequence>& sequences,
                                                               double temperature, int64_t token_budget,
                                                               Communicator* ranks = nullptr, bool share_prefixes = false);

}  // namespace hone::trainer
