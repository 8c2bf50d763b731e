#pragma once

// What samples and judges episodes, and how: one set-up for every command that does.

#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "base/candidate.h"
#include "cli/train/problems.h"
#include "cli/train/prompter.h"
#include "cli/train/settings.h"
#include "rewards/terms/cuda_l1.h"
#include "rollout/engine/engine.h"
#include "rollout/episode/driver.h"
#include "verifier/client/client.h"

namespace hone::cli {

/// What samples and judges; borrowed.
struct RolloutParts {
  ProblemSource* problems = nullptr;  // null: others draw the prompts
  Prompter* prompter = nullptr;
  rollout::Engine* engine = nullptr;  // null: others sample
  verifier::Client* client = nullptr;
  rollout::VerifyTemplate verify;
  Capabilities capabilities;  // the verifier's
  int64_t context = 0;        // tokens of an episode's last turn at most; 0: no limit
  int64_t seed = 1;
  bool shares_gpu = false;   // the verifier times on the GPU that the engine computes on
  std::function<void(const std::string& what)> on_phase;  // hears what is waited for, from any thread; may be empty
};

/// Of whom nobody is paid, hence nothing is doubted.
inline constexpr rewards::RemeasureRule kNoDoubt = {.absolute = 1e9, .over_best = 1e9};

/// How a prompt is sampled.
struct EpisodeSettings {
  int64_t group_size = 1;
  int64_t turns = 1;
  int64_t max_tokens = 256;
  double temperature = 1;
  bool stream = false;
  rewards::RemeasureRule remeasure = kNoDoubt;
};

/// Of a run that learns. What decides pays: passes are doubted where they become exemplars.
EpisodeSettings EpisodesOf(const RlSettings& settings);

/// What a caller hears and decides while a driver runs; each may be empty.
struct DriverHooks {
  std::function<void(const rollout::DriverProgress&)> on_progress;
  std::function<absl::Status(absl::Span<const Turn* const> answers)> meanwhile;
  const std::atomic<bool>* abort = nullptr;
};

/// Borrows what `parts` points to.
rollout::EpisodeDriver MakeDriver(const RolloutParts& parts, const EpisodeSettings& settings, DriverHooks hooks = {});

/// Where a phase's sampling starts: phases never share draws.
uint64_t SamplingSeed(int64_t seed, int64_t step);

/// Of groups and where their time went: verdicts, rollout/tokens, verify/cached (share that was not judged anew),
/// verify/build_busy and verify/lane_busy (shares of the verifier's compilers' and lanes' time while it had work; only where
/// judging_s > 0).
std::map<std::string, double> LoadMetrics(const std::vector<Group>& groups, double judging_s, const Capabilities& verifier);

}  // namespace hone::cli
