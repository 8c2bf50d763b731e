#pragma once

// A run's rollouts: which prompts a step gets, and what its buffers learn from the groups that come back.

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "base/candidate.h"
#include "cli/train/problems.h"
#include "cli/train/prompter.h"
#include "cli/train/settings.h"
#include "rollout/engine/engine.h"
#include "rollout/episode/driver.h"
#include "rollout/sampler/exemplar_store.h"
#include "rollout/sampler/random.h"
#include "rollout/sampler/retry_buffer.h"
#include "trainer/loop/rl_loop.h"
#include "verifier/client/client.h"

namespace hone::cli {

/// What samples and judges; borrowed.
struct RolloutParts {
  ProblemSource& problems;
  Prompter& prompter;
  rollout::Engine& engine;
  verifier::Client& client;
  rollout::VerifyTemplate verify;
  Capabilities capabilities;  // the verifier's
  int64_t context = 0;  // tokens of an episode's last turn at most; 0: no limit
  int64_t seed = 1;
  std::function<void(const std::string& what)> on_phase;  // hears what is waited for, from any thread; may be empty
};

/// Not thread-safe.
class SampledGroups : public trainer::GroupSource {
 public:
  /// Borrows all; `exemplars` null: none.
  SampledGroups(const RlSettings& settings, const RolloutParts& parts, rollout::ExemplarStore* exemplars);

  /// Its metrics: seconds/generate (the engine ran), seconds/verify (only verdicts were waited for), seconds/judging (the
  /// verifier had work), rollout/tokens, rollout/tokens_per_s, verdicts, verify/cached (share that was not judged anew),
  /// verify/build_busy and verify/lane_busy (shares of its compilers' and its lanes' time while it had work), those of retry
  /// buffer, exemplars and episodes.
  absl::StatusOr<std::vector<Group>> Collect(int64_t step, const std::function<absl::Status()>& meanwhile,
                                             trainer::StepMetrics& metrics) override;

  /// Problems, retry buffer, draws, and a mark of the exemplar store.
  absl::StatusOr<std::string> Save() override;
  absl::Status Restore(const std::string& state) override;

 private:
  struct Slot {
    rollout::GroupRequest request;
    std::optional<int64_t> retry_id;
  };
  absl::StatusOr<Slot> NextSlot(int64_t step, int64_t index);
  absl::StatusOr<std::vector<int32_t>> PromptFor(const Problem& problem);
  /// kInvalidArgument: longer than the context allows.
  absl::StatusOr<std::vector<int32_t>> PlainPrompt(const Problem& problem);
  bool Fits(const std::vector<int32_t>& prompt) const;
  absl::StatusOr<std::map<std::string, double>> BestOf(const std::vector<rollout::GroupRequest>& requests);
  absl::Status Learn(const std::vector<Slot>& slots, const std::vector<Group>& groups, int64_t step);
  absl::Status OfferExemplars(const Group& group);

  const RlSettings& settings_;
  RolloutParts parts_;
  rollout::ExemplarStore* exemplars_;
  rollout::RetryBuffer retry_;
  rollout::SplitMix random_;
  int64_t contrast_prompts_ = 0;
};

/// Where a phase's sampling starts: phases never share draws.
uint64_t SamplingSeed(int64_t seed, int64_t step);

}  // namespace hone::cli
