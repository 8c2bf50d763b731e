#pragma once

// A reward pipeline: verdicts of groups of episodes in, rewards and advantages out. Composed from named parts in YAML:
//
//   rewards:
//     terms:
//       - {name: musacoder, weight: 1, lambda: 0.5, nu_max: 4, baseline: eager}
//     turns: {name: primeecho, alpha: 0.75}
//     smoothing: {population: none}
//     advantage: {name: grpo, compare: prompt}
//
// Everything is a pure function of its arguments: no torch, no I/O, no state, so the learner, the lab and the tests get
// the same numbers. docs/rewards.md lists the parts.

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "base/config.h"
#include "base/episode.h"
#include "rewards/advantage/advantage.h"
#include "rewards/outcome.h"
#include "rewards/terms/term.h"
#include "rewards/turns/turn_rule.h"

namespace hone::rewards {

struct WeightedTerm {
  Choice<Term> term;
  double weight = 1;
};
template <class F>
void Describe(F& f, WeightedTerm& t) {
  DescribeChoice(f, t.term, "which term scores a turn");
  f.Value("weight", t.weight, Range(-1000.0, 1000.0), "factor of the term in the turn's score");
}

struct TurnsConfig {
  Choice<TurnRule> rule;
};
template <class F>
void Describe(F& f, TurnsConfig& c) {
  DescribeChoice(f, c.rule, "how the turns' scores become rewards, and which turns are trained");
}

/// r' = clip((r - mu) / sigma, -k, k) on the rewards, before the advantage. sigma 0 gives 0.
/// Source: CUDA-L1, arXiv:2507.14111, eq. 6, k = 1.5. The paper does not say over what mu and sigma are taken:
/// `population` chooses; `fixed` takes the mean and std given here.
struct SmoothingConfig {
  std::string population = "none";
  double k = 1.5;
  double mean = 0;
  double std = 1;
};
template <class F>
void Describe(F& f, SmoothingConfig& c) {
  f.Value("population", c.population, OneOf{{"none", "group", "batch", "fixed"}},
          "whose mean and std normalise a reward");
  f.Value("k", c.k, Range(0.0, 1000.0), "bound of the normalised reward");
  f.Value("mean", c.mean, Range(-1e6, 1e6), "for population fixed");
  f.Value("std", c.std, Range(1e-9, 1e6), "for population fixed");
}

struct AdvantageConfig {
  Choice<Advantage> kind;
  std::string compare = "turn";
};
template <class F>
void Describe(F& f, AdvantageConfig& c) {
  DescribeChoice(f, c.kind, "how rewards become advantages");
  f.Value("compare", c.compare, OneOf{{"turn", "prompt"}},
          "what a sample is compared with: the same turn index of its group, or every trained turn of its group");
}

struct PipelineConfig {
  std::vector<WeightedTerm> terms = {WeightedTerm{}};
  TurnsConfig turns;
  SmoothingConfig smoothing;
  AdvantageConfig advantage;
};
template <class F>
void Describe(F& f, PipelineConfig& c) {
  f.List("terms", c.terms, "their weighted sum is a turn's score");
  f.Section("turns", c.turns, "from turns to episodes");
  f.Section("smoothing", c.smoothing, "normalising and clipping of rewards");
  f.Section("advantage", c.advantage, "from rewards to advantages");
  if (c.terms.empty()) f.Fail("terms", "needs at least one term");
}

struct TurnCredit {
  std::optional<double> score;   // of this turn alone; empty: no sample
  std::optional<double> reward;  // what it is trained on, before smoothing; empty: its tokens get no gradient
  double advantage = 0;          // 0 where there is no reward
  bool trained() const { return reward.has_value(); }
};
struct EpisodeCredit {
  std::vector<TurnCredit> turns;  // [turns of the episode]
};
struct GroupCredit {
  std::vector<EpisodeCredit> episodes;
  bool signal = false;  // some trained turn has a non-zero advantage
};
struct BatchCredit {
  std::vector<GroupCredit> groups;
  int64_t samples = 0;            // trained turns
  int64_t episodes_unscored = 0;  // episodes without a trained turn: INFRA, discarded measurements, no turns
  int64_t zero_signal_groups = 0;
  int64_t untimed_passes = 0;  // turns that passed without a timing that some term reads
};

/// Which response tokens of an episode get gradient: [turns][response tokens of the turn], 1 on every token of a
/// trained turn, 0 elsewhere. Under PrimeEcho those are the first response's alone. `credit` is the episode's.
std::vector<std::vector<uint8_t>> GradientMask(const Episode& episode, const EpisodeCredit& credit);

/// Thread-safe once made.
class Pipeline {
 public:
  /// kInvalidArgument: no term, or a parameter that a part refuses.
  static absl::StatusOr<Pipeline> Create(PipelineConfig config);

  BatchCredit Score(absl::Span<const Group> groups) const;
  BatchCredit Score(absl::Span<const GroupOutcomes> groups) const;

  /// What each term adds to a turn's score, weight included: its mean over all scored turns of the groups, by the term's
  /// name; a name that comes again gets "#2". They add up to the mean score.
  std::map<std::string, double> PartMeans(absl::Span<const Group> groups) const;

  /// Baselines that terms read by name: a protocol that does not time them leaves every pass at speedup 1.
  std::vector<Baseline> NeededBaselines() const;

  /// The formula in words, one line per stage.
  std::string InWords() const;

  const PipelineConfig& config() const { return config_; }

 private:
  explicit Pipeline(PipelineConfig config) : config_(std::move(config)) {}
  /// By term, weights included; empty: no sample.
  std::optional<std::vector<double>> TermScores(const Outcome& outcome) const;
  std::optional<double> ScoreTurn(const Outcome& outcome) const;
  bool Timed(const Outcome& outcome) const;
  EpisodeCredit CreditEpisode(const EpisodeOutcomes& turns) const;
  PipelineConfig config_;
};

}  // namespace hone::rewards
