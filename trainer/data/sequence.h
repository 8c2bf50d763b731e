#pragma once

// What the learner is given: exact token ids with what is known about each token. No torch.

#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "base/episode.h"

namespace hone::trainer {

/// One packed sequence: a prompt and what follows it, ids exactly as sampled or tokenized, never re-encoded. A multi-turn
/// episode is one sequence whose mask picks the tokens that the policy wrote.
///
/// Arrays marked [ids] are indexed like ids: entry t is about predicting ids[t] from ids[0, t).
struct TrainSequence {
  std::vector<int32_t> ids;
  std::vector<uint8_t> loss_mask;  // [ids] 1: trained on; entry 0 is 0 (nothing predicts the first token)

  /// SFT: what the token's loss counts, on top of the mask (empty: 1).
  std::vector<float> token_weights;  // [ids] or empty
  /// SFT: 1 where the token lies in a kernel's body or a launch's configuration (CuSeT); empty: nowhere.
  std::vector<uint8_t> kernel_tokens;  // [ids] or empty

  /// RL; empty and 0 for SFT.
  std::vector<float> rollout_log_probs;    // [ids] of the distribution really sampled; read where loss_mask is 1
  std::vector<float> reference_log_probs;  // [ids] of the reference policy, or empty: no KL term
  double advantage = 0;
  std::vector<VersionSpan> versions;       // policy versions, offsets into ids; empty: unknown

  int64_t length() const { return static_cast<int64_t>(ids.size()); }
  int64_t LossTokens() const;
};

/// prompt followed by response; the mask is 1 on the response.
TrainSequence PromptAndResponse(const std::vector<int32_t>& prompt, const std::vector<int32_t>& response);
/// The same with log-probs, versions and advantage of a sampled turn.
TrainSequence SampledTurn(const Turn& turn, double advantage);

/// kInvalidArgument names the sequence's index and what is wrong: lengths that differ, fewer than two ids, mask on the
/// first token. Log-probs that are not finite are not an error here: filters reject such tokens.
absl::Status Validate(const TrainSequence& sequence, size_t index, bool needs_rollout);

}  // namespace hone::trainer
