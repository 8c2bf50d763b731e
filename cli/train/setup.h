#pragma once

// A policy ready to be sampled and judged: what `hone train` and `hone rollout` have in common.

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "cli/train/groups.h"
#include "cli/train/phases.h"
#include "cli/train/problems.h"
#include "cli/train/prompter.h"
#include "cli/train/settings.h"
#include "cli/train/start.h"
#include "rollout/engine/native_engine.h"

namespace hone::cli {

class PolicySetup {
 public:
  /// Loads the policy; sets the process's threads and generator. Writes nothing. `threads` 0: one a core. Errors of LoadStart;
  /// kInvalidArgument: policy.start is empty, or policy.prompts is not for this policy.
  static absl::StatusOr<PolicySetup> Create(const PolicySettings& settings, int64_t threads, int64_t seed);

  /// Connects to the verifier (or starts one) and finds the tasks. Errors of both.
  absl::Status Connect(const VerifierSettings& verifier, const TaskSettings& tasks, double named_share,
                       const std::string& log_path);

  /// Borrowed from this, after Connect.
  RolloutParts Parts(std::vector<Baseline> baselines) const;
  StartingPolicy& start() { return start_; }
  ProblemSource& problems() { return *problems_; }

 private:
  PolicySetup() = default;

  PolicySettings settings_;
  VerifierSettings verifier_settings_;
  int64_t seed_ = 1;
  StartingPolicy start_;
  std::unique_ptr<Prompter> prompter_;
  std::unique_ptr<rollout::NativeEngine> engine_;
  RunVerifier verifier_;
  std::unique_ptr<ProblemSource> problems_;
};

}  // namespace hone::cli
