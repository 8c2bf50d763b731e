#pragma once

// A policy ready to be sampled and judged: what `hone train`, `hone rollout` and `hone rft` have in common.

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "cli/train/groups.h"
#include "cli/train/model_settings.h"
#include "cli/train/phases.h"
#include "cli/train/problems.h"
#include "cli/train/prompter.h"
#include "cli/train/settings.h"
#include "cli/train/start.h"
#include "policy/model/lora.h"
#include "rollout/engine/native_engine.h"

namespace hone::cli {

/// Where and how the model computes.
struct ModelSettings {
  DeviceSettings device;
  LoraSettings lora;  // of training; its rank 0: no new adapter
  EngineSettings engine;
  bool samples = true;          // make the engine
  bool separate_layers = false;  // so that weights can be spread over ranks
};

class PolicySetup {
 public:
  /// Loads the policy and its adapter, or makes a new one (lora.rank > 0), and the engine that samples it; sets the process's
  /// threads and generator. Writes nothing. `threads` 0: one a core. With an adapter all other weights are frozen. Engine and
  /// learner share the weights: what a step changes is sampled from at once.
  /// Errors of LoadStart, Lora::Load and NativeEngine::Create; kInvalidArgument: policy.start is empty, policy.prompts is not
  /// for this policy, device.dtype is not one that is sampled from there, or lora.rank is not that of the adapter given.
  static absl::StatusOr<PolicySetup> Create(const PolicySettings& settings, const ModelSettings& model, int64_t threads,
                                            int64_t seed);

  /// The same for the model in `folder`, which has no weights: they are to come before anything is sampled. With lora.rank
  /// > 0, an adapter is put on whose weights are to come, too.
  static absl::StatusOr<PolicySetup> CreateWithoutWeights(const std::string& folder, const PolicySettings& settings,
                                                          const ModelSettings& model, int64_t threads, int64_t seed);

  /// Another engine in place of the one there is. Errors of NativeEngine::Create.
  absl::Status RemakeEngine();

  /// Connects to the verifier, or starts one.
  absl::Status ConnectVerifier(const VerifierSettings& verifier, const std::string& log_path);
  /// Connects to the verifier (or starts one) and finds the tasks. Errors of both.
  absl::Status Connect(const VerifierSettings& verifier, const TaskSettings& tasks, double named_share,
                       const std::string& log_path);

  /// Borrowed from this, after Connect or ConnectVerifier.
  RolloutParts Parts(std::vector<Baseline> baselines) const;
  StartingPolicy& start() { return start_; }
  policy::Decoder& decoder() { return *start_.decoder; }
  const policy::Lora* adapter() const { return adapter_.get(); }  // null: none
  ProblemSource& problems() { return *problems_; }
  rollout::NativeEngine& engine() { return *engine_; }  // if one was made
  /// Samples that the engine decodes together.
  int64_t running() const { return running_; }
  /// Those that a report of a run shows on the verifier's device.
  std::vector<Baseline> ReportedBaselines() const;

 private:
  PolicySetup() = default;
  static absl::StatusOr<PolicySetup> Around(StartingPolicy start, const PolicySettings& settings, const ModelSettings& model,
                                            int64_t threads, int64_t seed);
  absl::Status PutOnAdapter(const LoraSettings& settings);

  PolicySettings settings_;
  EngineSettings engine_settings_;
  VerifierSettings verifier_settings_;
  std::string device_;  // that the engine computes on
  int64_t seed_ = 1, running_ = 1;
  StartingPolicy start_;
  std::unique_ptr<policy::Lora> adapter_;
  std::unique_ptr<Prompter> prompter_;
  std::unique_ptr<rollout::NativeEngine> engine_;
  RunVerifier verifier_;
  std::unique_ptr<ProblemSource> problems_;
};

}  // namespace hone::cli
