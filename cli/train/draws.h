#pragma once

// Which prompts a step of a run gets, and what its buffers learn from the groups that come back, whoever samples them.

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "cli/train/episodes.h"
#include "cli/train/settings.h"
#include "rollout/sampler/exemplar_store.h"
#include "rollout/sampler/random.h"
#include "rollout/sampler/retry_buffer.h"

namespace hone::cli {

/// Not thread-safe.
class PromptDraws {
 public:
  /// Borrows all; `exemplars` null: none.
  PromptDraws(const RlSettings& settings, const RolloutParts& parts, rollout::ExemplarStore* exemplars);

  /// Of one step, with the best speedup known of each task. kInvalidArgument: a prompt is longer than the context allows.
  absl::StatusOr<std::vector<rollout::GroupRequest>> Draw(int64_t step);

  /// `groups` of requests that were drawn and have not come back yet.
  absl::Status Learn(const std::vector<Group>& groups, int64_t step);

  /// Of buffers and prompts since the last call.
  std::map<std::string, double> TakeMetrics();

  /// Problems, retry buffer, draws, and a mark of the exemplar store.
  absl::StatusOr<std::string> Save() const;
  absl::Status Restore(const std::string& state);

 private:
  absl::StatusOr<rollout::GroupRequest> NextRequest(int64_t step, int64_t index);
  absl::StatusOr<std::vector<int32_t>> PromptFor(const Problem& problem);
  absl::StatusOr<std::vector<int32_t>> PlainPrompt(const Problem& problem);
  bool Fits(const std::vector<int32_t>& prompt) const;
  absl::Status OfferExemplars(const Group& group);

  const RlSettings& settings_;
  RolloutParts parts_;
  rollout::ExemplarStore* exemplars_;
  rollout::RetryBuffer retry_;
  rollout::SplitMix random_;
  std::map<std::string, std::optional<int64_t>> drawn_;  // by group: its record in the retry buffer; none: an ordinary one
  int64_t contrast_prompts_ = 0;
};

}  // namespace hone::cli
