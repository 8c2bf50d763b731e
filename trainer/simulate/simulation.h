#pragma once

// Trains a tabular policy on a world under a reward pipeline: the direction in which a mechanism pushes, in seconds.
//
// The policy is one table of logits a task; every prompt about the task reads the same table, so that what is learned
// from a repair or with exemplars shows in fresh prompts as well. Rewards, advantages, retry buffer, exemplar draw and
// filters are the ones that training uses. What stands in for a language model is assumed, and said here:
//
//   feedback   shown a failing candidate, the policy multiplies the odds of candidates that get further by e^feedback
//   and
//              does not repeat the same one
//   exemplars  shown two implementations, it multiplies the odds of passes at 0.9 to 2 times the faster one's speed by
//              e^imitation, and by the root of that the odds of passes within a tenth of the slower one's: it copies
//              what it is shown, or goes a little further
//   mismatch   a response has `tokens` tokens; the engine's log-probs differ from the learner's by N(0, engine_noise) a
//              token. A share `corrupt` of the responses is not what the learner takes it for (a stale cache, ids
//              encoded anew): its log-ratios are N(0, corrupt_noise) in pairs of opposite sign, which cancel in the
//              mean, and its verdict is credited to a candidate drawn at random
//   learning   one step of gradient ascent on the clipped token-level surrogate, ratio = learner / rollout
//
// Sizes of effects are the assumptions'; directions are worth looking at. Nothing here replaces a training run.

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "base/config.h"
#include "rewards/compose/pipeline.h"
#include "rollout/sampler/retry_buffer.h"
#include "trainer/loss/filters/chain.h"
#include "trainer/simulate/world.h"

namespace hone::trainer {

struct SimulationConfig {
  rewards::PipelineConfig rewards;
  rollout::RetryConfig retry;
  FilterChainConfig filters;
  std::string exemplars = "bucket";
  double bucket_width = 0.1;
  double tau = 0.5;

  int64_t steps = 400;
  int64_t groups = 16;
  int64_t group_size = 8;
  int64_t turns = 3;
  double learning_rate = 0.5;
  double clip_low = 0.2;
  double clip_high = 0.2;

  double feedback = 3;
  double imitation = 1.5;
  int64_t tokens = 24;
  double engine_noise = 0.01;
  double corrupt = 0.2;
  double corrupt_noise = 1.2;
};
template <class F>
void Describe(F& f, SimulationConfig& c) {
  f.Section("rewards", c.rewards, "the pipeline");
  f.Section("retry", c.retry, "buffered dynamic retry");
  f.Section("filters", c.filters, "off-policy filters");
  f.Value("exemplars", c.exemplars, OneOf{{"bucket", "random", "none"}}, "how contrastive exemplars are drawn");
  f.Value("bucket_width", c.bucket_width, Range(1e-6, 1e6), "of the exemplars' buckets");
  f.Value("tau", c.tau, Range(1e-6, 1e6), "temperature of the draw of buckets");
  f.Value("steps", c.steps, Range(1, 1'000'000), "updates");
  f.Value("groups", c.groups, Range(1, 65536), "groups of a step");
  f.Value("group_size", c.group_size, Range(1, 4096), "episodes of a group");
  f.Value("turns", c.turns, Range(1, 64), "largest number of responses of an episode");
  f.Value("learning_rate", c.learning_rate, Range(0.0, 1e6),
          "of the logits: each group moves them by the mean over its answers");
  f.Value("clip_low", c.clip_low, Range(0.0, 1.0), "the ratio is clipped at 1 - clip_low");
  f.Value("clip_high", c.clip_high, Range(0.0, 1e6), "the ratio is clipped at 1 + clip_high");
  f.Value("feedback", c.feedback, Range(0.0, 50.0), "log odds that feedback adds to candidates that get further");
  f.Value("imitation", c.imitation, Range(0.0, 50.0), "log odds that exemplars add to passes like the faster one");
  f.Value("tokens", c.tokens, Range(1, 4096), "of a response");
  f.Value("engine_noise", c.engine_noise, Range(0.0, 10.0), "standard deviation of a token's log-ratio");
  f.Value("corrupt", c.corrupt, Range(0.0, 1.0), "share of the responses that are not what the learner takes them for");
  f.Value("corrupt_noise", c.corrupt_noise, Range(0.0, 10.0), "standard deviation of their log-ratios");
}

/// What the policy does on fresh prompts, computed from the table without sampling: means over tasks.
struct SimScore {
  double first_turn_correct = 0;  // probability that one answer passes
  double pass_at_8 = 0;           // that one of eight does
  double faster = 0;              // that one answer passes at more than 1.1 times the baseline's speed
  double log_speedup = 0;         // mean over tasks of E[log speedup | pass]
};

struct SimResult {
  SimScore before;
  SimScore after;
  std::vector<SimScore> curve;            // after every step
  std::map<std::string, double> metrics;  // of the last step: rejected share, zero-signal share, retry/...
  int64_t skipped_steps = 0;              // steps in which nothing was left or had an advantage
};

/// Equal seeds give equal results. kInvalidArgument: a part of the pipeline refuses its parameters.
absl::StatusOr<SimResult> Simulate(const World& world, const SimulationConfig& config, uint64_t seed);

/// The published ablations of a configuration: name and configuration, the full one first.
struct SimVariant {
  std::string name;
  SimulationConfig config;
};
std::vector<SimVariant> Ablations(const SimulationConfig& full);

}  // namespace hone::trainer
