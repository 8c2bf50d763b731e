#pragma once

// A run's rollouts where one process samples and learns.

#include <functional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "cli/train/draws.h"
#include "cli/train/episodes.h"
#include "cli/train/settings.h"
#include "rollout/sampler/exemplar_store.h"
#include "trainer/loop/rl_loop.h"

namespace hone::cli {

/// Not thread-safe.
class SampledGroups : public trainer::GroupSource {
 public:
  /// Borrows all; `exemplars` null: none.
  SampledGroups(const RlSettings& settings, const RolloutParts& parts, rollout::ExemplarStore* exemplars)
      : settings_(settings), parts_(parts), draws_(settings, parts, exemplars) {}

  absl::Status Begin(int64_t step, int64_t policy_version) override;

  /// Its metrics: seconds/generate (the engine ran), seconds/verify (only verdicts were waited for), seconds/judging (the
  /// verifier had work), rollout/tokens_per_s, those of LoadMetrics, of retry buffer, exemplars and episodes.
  absl::StatusOr<std::vector<Group>> Collect(int64_t step, const Meanwhile& meanwhile, trainer::StepMetrics& metrics) override;
  absl::Status Learned(int64_t policy_version, trainer::StepMetrics& metrics) override;

  absl::StatusOr<std::string> Save() override { return draws_.Save(); }
  absl::Status Restore(const std::string& state) override { return draws_.Restore(state); }

 private:
  const RlSettings& settings_;
  RolloutParts parts_;
  PromptDraws draws_;
};

}  // namespace hone::cli
