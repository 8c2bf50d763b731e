#include "rewards/outcome.h"

#include <algorithm>
#include <cmath>
#include <string>

namespace hone::rewards {
namespace {

double Measurable(double ratio) { return std::isfinite(ratio) && ratio > 0 ? ratio : 0; }

/// Bounds that were not measured fall back to the median, so that a missing interval is an interval of no width.
Speedup SpeedupOf(const Estimate& estimate) {
  Speedup speedup;
  speedup.median = Measurable(estimate.median);
  if (!speedup.measured()) return speedup;
  const double low = Measurable(estimate.low);
  const double high = Measurable(estimate.high);
  speedup.low = low > 0 ? std::min(low, speedup.median) : speedup.median;
  speedup.high = std::max(high, speedup.median);
  return speedup;
}

double RateOf(const Verdict& verdict) {
  if (verdict.ok()) return 1;
  return std::isfinite(verdict.correct_rate) ? std::clamp(verdict.correct_rate, 0.0, 1.0) : 0;
}

}  // namespace

double UniformOf(absl::string_view episode_id, int turn_index) {
  uint64_t hash = 0xcbf29ce484222325u;  // FNV-1a, then the finaliser of SplitMix64
  for (const char c : episode_id) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3u;
  hash += 0x9e3779b97f4a7c15u * (static_cast<uint64_t>(turn_index) + 1);
  hash = (hash ^ (hash >> 30)) * 0xbf58476d1ce4e5b9u;
  hash = (hash ^ (hash >> 27)) * 0x94d049bb133111ebu;
  return static_cast<double>((hash ^ (hash >> 31)) >> 11) * 0x1.0p-53;
}

Outcome OutcomeOf(const Turn& turn, const std::string& episode_id, int turn_index) {
  const Verdict& verdict = turn.verdict;
  Outcome outcome;
  outcome.status = verdict.status;
  outcome.correct_rate = RateOf(verdict);
  outcome.response_tokens = static_cast<int64_t>(turn.response_ids.size());
  outcome.truncated = turn.truncated;
  outcome.uniform = UniformOf(episode_id, turn_index);
  if (!verdict.ok()) return outcome;
  if (verdict.coverage && std::isfinite(*verdict.coverage)) outcome.coverage = std::clamp(*verdict.coverage, 0.0, 1.0);
  for (const Timing& timing : verdict.timings) {
    outcome.speedups[static_cast<int>(timing.baseline)] = SpeedupOf(timing.speedup);
  }
  if (const Timing* first = verdict.speed()) {
    outcome.first_baseline = first->baseline;
    outcome.samples = first->samples;
  }
  return outcome;
}

GroupOutcomes OutcomesOf(const Group& group) {
  GroupOutcomes outcomes;
  outcomes.reserve(group.episodes.size());
  for (const Episode& episode : group.episodes) {
    EpisodeOutcomes& turns = outcomes.emplace_back();
    turns.reserve(episode.turns.size());
    for (size_t k = 0; k < episode.turns.size(); ++k) {
      turns.push_back(OutcomeOf(episode.turns[k], episode.id, static_cast<int>(k)));
    }
  }
  return outcomes;
}

}  // namespace hone::rewards
