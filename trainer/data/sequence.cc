#include "trainer/data/sequence.h"

#include <algorithm>

#include "absl/strings/str_cat.h"

namespace hone::trainer {

int64_t TrainSequence::LossTokens() const { return std::count(loss_mask.begin(), loss_mask.end(), uint8_t{1}); }

TrainSequence PromptAndResponse(const std::vector<int32_t>& prompt, const std::vector<int32_t>& response) {
  TrainSequence sequence;
  sequence.ids = prompt;
  sequence.ids.insert(sequence.ids.end(), response.begin(), response.end());
  sequence.loss_mask.assign(prompt.size(), 0);
  sequence.loss_mask.resize(sequence.ids.size(), 1);
  return sequence;
}

TrainSequence SampledTurn(const Turn& turn, double advantage) {
  TrainSequence sequence = PromptAndResponse(turn.prompt_ids, turn.response_ids);
  const int64_t prompt = static_cast<int64_t>(turn.prompt_ids.size());
  sequence.rollout_log_probs.assign(turn.prompt_ids.size(), 0.0f);
  sequence.rollout_log_probs.insert(sequence.rollout_log_probs.end(), turn.log_probs.begin(), turn.log_probs.end());
  sequence.advantage = advantage;
  for (const VersionSpan& span : turn.versions) {
    sequence.versions.push_back({span.begin + prompt, span.end + prompt, span.policy_version});
  }
  return sequence;
}

absl::Status Validate(const TrainSequence& s, size_t index, bool needs_rollout) {
  const auto bad = [&](auto&&... parts) {
    return absl::InvalidArgumentError(absl::StrCat("training sequence ", index, ": ", parts...));
  };
  if (s.ids.size() < 2) return bad(s.ids.size(), " ids, at least 2 are needed");
  const auto wrong = [&](size_t size) { return size != s.ids.size(); };
  if (wrong(s.loss_mask.size())) return bad("loss_mask has ", s.loss_mask.size(), " entries for ", s.ids.size(), " ids");
  if (s.loss_mask[0] != 0) return bad("the first token cannot be trained on");
  if (std::any_of(s.loss_mask.begin(), s.loss_mask.end(), [](uint8_t m) { return m > 1; })) return bad("loss_mask holds a value over 1");
  if (!s.token_weights.empty() && wrong(s.token_weights.size())) {
    return bad("token_weights has ", s.token_weights.size(), " entries for ", s.ids.size(), " ids");
  }
  if (!s.kernel_tokens.empty() && wrong(s.kernel_tokens.size())) {
    return bad("kernel_tokens has ", s.kernel_tokens.size(), " entries for ", s.ids.size(), " ids");
  }
  if (!s.reference_log_probs.empty() && wrong(s.reference_log_probs.size())) {
    return bad("reference_log_probs has ", s.reference_log_probs.size(), " entries for ", s.ids.size(), " ids");
  }
  if (needs_rollout && wrong(s.rollout_log_probs.size())) {
    return bad("rollout_log_probs has ", s.rollout_log_probs.size(), " entries for ", s.ids.size(), " ids");
  }
  return absl::OkStatus();
}

}  // namespace hone::trainer
