#include "rewards/compose/pipeline.h"

#include <algorithm>
#include <numeric>
#include <set>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"

namespace hone::rewards {
namespace {

/// A trained turn and its place in the batch.
struct Trained {
  size_t group;
  size_t turn;
  TurnCredit* credit;
};

/// The trained turns of a batch, those that are compared with one another adjacent.
std::vector<Trained> TrainedTurns(BatchCredit& batch, bool compare_turns) {
  std::vector<Trained> trained;
  for (size_t g = 0; g < batch.groups.size(); ++g) {
    const size_t begin = trained.size();
    for (EpisodeCredit& episode : batch.groups[g].episodes) {
      for (size_t k = 0; k < episode.turns.size(); ++k) {
        if (episode.turns[k].trained()) trained.push_back({g, k, &episode.turns[k]});
      }
    }
    if (!compare_turns) continue;
    std::stable_sort(trained.begin() + begin, trained.end(),
                     [](const Trained& a, const Trained& b) { return a.turn < b.turn; });
  }
  return trained;
}

std::vector<Sample> SamplesOf(const std::vector<Trained>& trained, bool compare_turns) {
  std::vector<Sample> samples;
  samples.reserve(trained.size());
  int64_t group = -1;
  for (size_t i = 0; i < trained.size(); ++i) {
    const bool same =
        i > 0 && trained[i].group == trained[i - 1].group && (!compare_turns || trained[i].turn == trained[i - 1].turn);
    if (!same) ++group;
    samples.push_back({group, *trained[i].credit->reward});
  }
  return samples;
}

void Normalise(absl::Span<Sample> samples, double mean, double std, double k) {
  for (Sample& sample : samples) {
    sample.reward = std > 0 ? std::clamp((sample.reward - mean) / std, -k, k) : 0;
  }
}

void Smooth(const SmoothingConfig& config, absl::Span<Sample> samples) {
  const auto normalise_by_own = [&](absl::Span<Sample> part) {
    const RewardStats stats = StatsOf(part);
    Normalise(part, stats.mean, stats.equal() ? 0 : stats.std, config.k);
  };
  if (config.population == "fixed") Normalise(samples, config.mean, config.std, config.k);
  if (config.population == "batch") normalise_by_own(samples);
  if (config.population == "group") {
    ForEachGroup(absl::Span<const Sample>(samples),
                 [&](size_t begin, size_t end) { normalise_by_own(samples.subspan(begin, end - begin)); });
  }
}

void Count(BatchCredit& batch) {
  for (GroupCredit& group : batch.groups) {
    for (const EpisodeCredit& episode : group.episodes) {
      bool scored = false;
      for (const TurnCredit& turn : episode.turns) {
        scored |= turn.trained();
        batch.samples += turn.trained();
        group.signal |= turn.advantage != 0;
      }
      batch.episodes_unscored += !scored;
    }
    batch.zero_signal_groups += !group.signal;
  }
}

}  // namespace

std::vector<std::vector<uint8_t>> GradientMask(const Episode& episode, const EpisodeCredit& credit) {
  std::vector<std::vector<uint8_t>> mask;
  for (size_t k = 0; k < episode.turns.size(); ++k) {
    const bool trained = k < credit.turns.size() && credit.turns[k].trained();
    mask.emplace_back(episode.turns[k].response_ids.size(), trained ? 1 : 0);
  }
  return mask;
}

absl::StatusOr<Pipeline> Pipeline::Create(PipelineConfig config) {
  if (config.terms.empty()) return absl::InvalidArgumentError("a reward pipeline needs at least one term");
  for (const WeightedTerm& term : config.terms) HONE_RETURN_IF_ERROR(term.term.part->Validate());
  HONE_RETURN_IF_ERROR(config.turns.rule.part->Validate());
  HONE_RETURN_IF_ERROR(config.advantage.kind.part->Validate());
  return Pipeline(std::move(config));
}

std::optional<std::vector<double>> Pipeline::TermScores(const Outcome& outcome) const {
  std::vector<double> scores;
  for (const WeightedTerm& term : config_.terms) {
    const std::optional<double> score = term.term.part->Score(outcome);
    if (!score) return std::nullopt;
    scores.push_back(term.weight * *score);
  }
  return scores;
}

std::optional<double> Pipeline::ScoreTurn(const Outcome& outcome) const {
  const std::optional<std::vector<double>> scores = TermScores(outcome);
  if (!scores) return std::nullopt;
  return std::accumulate(scores->begin(), scores->end(), 0.0);
}

std::map<std::string, double> Pipeline::PartMeans(absl::Span<const Group> groups) const {
  std::vector<double> sums(config_.terms.size(), 0.0);
  double turns = 0;
  for (const Group& group : groups) {
    for (const EpisodeOutcomes& episode : OutcomesOf(group)) {
      for (const Outcome& outcome : episode) {
        const std::optional<std::vector<double>> scores = TermScores(outcome);
        if (!scores) continue;
        for (size_t i = 0; i < sums.size(); ++i) sums[i] += (*scores)[i];
        ++turns;
      }
    }
  }
  std::map<std::string, double> means;
  for (size_t i = 0; i < sums.size() && turns > 0; ++i) {
    std::string name = config_.terms[i].term.name;
    for (int again = 2; means.count(name) > 0; ++again) name = absl::StrCat(config_.terms[i].term.name, "#", again);
    means[name] = sums[i] / turns;
  }
  return means;
}

bool Pipeline::Timed(const Outcome& outcome) const {
  return !outcome.passed() || std::all_of(config_.terms.begin(), config_.terms.end(),
                                          [&](const WeightedTerm& term) { return term.term.part->Timed(outcome); });
}

EpisodeCredit Pipeline::CreditEpisode(const EpisodeOutcomes& turns) const {
  std::vector<ScoredTurn> scored;
  scored.reserve(turns.size());
  for (const Outcome& outcome : turns) scored.push_back({ScoreTurn(outcome), outcome.passed()});
  std::vector<std::optional<double>> rewards(turns.size());
  config_.turns.rule.part->Credit(scored, absl::MakeSpan(rewards));
  EpisodeCredit credit;
  credit.turns.reserve(turns.size());
  for (size_t k = 0; k < turns.size(); ++k) credit.turns.push_back({scored[k].score, rewards[k], 0});
  return credit;
}

BatchCredit Pipeline::Score(absl::Span<const GroupOutcomes> groups) const {
  BatchCredit batch;
  batch.groups.resize(groups.size());
  for (size_t g = 0; g < groups.size(); ++g) {
    batch.groups[g].episodes.reserve(groups[g].size());
    for (const EpisodeOutcomes& episode : groups[g]) {
      batch.groups[g].episodes.push_back(CreditEpisode(episode));
      for (const Outcome& outcome : episode) batch.untimed_passes += !Timed(outcome);
    }
  }
  const bool compare_turns = config_.advantage.compare == "turn";
  const std::vector<Trained> trained = TrainedTurns(batch, compare_turns);
  std::vector<Sample> samples = SamplesOf(trained, compare_turns);
  Smooth(config_.smoothing, absl::MakeSpan(samples));
  std::vector<double> advantages(samples.size());
  config_.advantage.kind.part->Compute(samples, absl::MakeSpan(advantages));
  for (size_t i = 0; i < trained.size(); ++i) trained[i].credit->advantage = advantages[i];
  Count(batch);
  return batch;
}

BatchCredit Pipeline::Score(absl::Span<const Group> groups) const {
  std::vector<GroupOutcomes> outcomes;
  outcomes.reserve(groups.size());
  for (const Group& group : groups) outcomes.push_back(OutcomesOf(group));
  return Score(outcomes);
}

std::vector<Baseline> Pipeline::NeededBaselines() const {
  std::set<Baseline> needed;
  for (const WeightedTerm& term : config_.terms) {
    for (const Baseline baseline : term.term.part->NeededBaselines()) needed.insert(baseline);
  }
  return {needed.begin(), needed.end()};
}

std::string Pipeline::InWords() const {
  std::string text;
  for (const WeightedTerm& term : config_.terms) {
    absl::StrAppend(&text, "score      ", &term == &config_.terms[0] ? "s = " : "  + ", term.weight, " * ",
                    term.term.name, ": ", term.term.part->Formula(), "\n");
  }
  absl::StrAppend(&text, "turns      ", config_.turns.rule.part->Formula(), "\n");
  if (config_.smoothing.population != "none") {
    absl::StrAppend(&text, "smoothing  R' = clip((R - mean) / std, -", config_.smoothing.k, ", ", config_.smoothing.k,
                    ") with mean and std of: ", config_.smoothing.population, "\n");
  }
  absl::StrAppend(&text, "advantage  ", config_.advantage.kind.part->Formula(), "; a sample is compared with ",
                  config_.advantage.compare == "turn" ? "the same turn of its group" : "all trained turns of its group",
                  "\nnot scored INFRA: the sample is left out and its group shrinks\n");
  return text;
}

}  // namespace hone::rewards
