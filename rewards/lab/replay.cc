#include "rewards/lab/replay.h"

#include <cmath>
#include <limits>
#include <utility>

#include "absl/strings/str_cat.h"

namespace hone::rewards {
namespace {

constexpr float kNone = std::numeric_limits<float>::quiet_NaN();

double Share(double part, int64_t whole) { return whole > 0 ? part / static_cast<double>(whole) : 0; }

}  // namespace

double PipelineSummary::RewardMean() const { return Share(reward_sum, samples); }
double PipelineSummary::RewardStd() const {
  const double mean = RewardMean();
  return std::sqrt(std::max(0.0, Share(reward_squares, samples) - mean * mean));
}
double PipelineSummary::ZeroSignalShare() const { return Share(static_cast<double>(zero_signal_groups), groups); }
double PipelineSummary::MeanGroupSpread() const {
  double sum = 0;
  for (const float spread : group_spreads) sum += spread;
  return Share(sum, static_cast<int64_t>(group_spreads.size()));
}

Replay::Replay(std::vector<NamedPipeline> pipelines, int64_t batch_groups,
               std::function<void(const CandidateRow&)> on_candidate)
    : pipelines_(std::move(pipelines)), batch_groups_(batch_groups), on_candidate_(std::move(on_candidate)) {
  for (const NamedPipeline& named : pipelines_) summaries_.emplace_back().name = named.name;
}

void Replay::Add(LabGroup&& group) {
  for (size_t i = 0; i < group.outcomes.size(); ++i) {
    absl::StrAppend(&names_, group.id, " ", group.episode_ids[i]);
    name_ends_.push_back(names_.size());
    if (!group.outcomes[i].empty()) ++first_turn_verdicts_[static_cast<size_t>(group.outcomes[i][0].status)];
  }
  batch_.push_back(std::move(group));
  if (static_cast<int64_t>(batch_.size()) >= batch_groups_) ScoreBatch();
}

void Replay::Finish() {
  if (!batch_.empty()) ScoreBatch();
}

std::string Replay::EpisodeName(size_t i) const {
  const size_t begin = i == 0 ? 0 : name_ends_[i - 1];
  return names_.substr(begin, name_ends_[i] - begin);
}

void Replay::ScoreBatch() {
  std::vector<GroupOutcomes> outcomes;
  outcomes.reserve(batch_.size());
  for (LabGroup& group : batch_) outcomes.push_back(std::move(group.outcomes));
  std::vector<BatchCredit> credits;
  for (size_t p = 0; p < pipelines_.size(); ++p) {
    BatchCredit credit = pipelines_[p].pipeline.Score(outcomes);
    for (size_t g = 0; g < outcomes.size(); ++g) {
      for (size_t e = 0; e < outcomes[g].size(); ++e) {
        for (size_t k = 0; k < outcomes[g][e].size(); ++k) {
          const std::optional<double>& reward = credit.groups[g].episodes[e].turns[k].reward;
          if (!reward) continue;
          const auto status = static_cast<size_t>(outcomes[g][e][k].status);
          summaries_[p].reward_by_status[status] += *reward;
          ++summaries_[p].samples_by_status[status];
        }
      }
    }
    Account(credit, summaries_[p]);
    if (on_candidate_) credits.push_back(std::move(credit));
  }
  for (size_t g = 0; g < batch_.size(); ++g) batch_[g].outcomes = std::move(outcomes[g]);
  if (on_candidate_) HandOutCandidates(credits);
  batch_.clear();
}

void Replay::Account(const BatchCredit& credit, PipelineSummary& summary) const {
  summary.groups += static_cast<int64_t>(credit.groups.size());
  summary.zero_signal_groups += credit.zero_signal_groups;
  summary.episodes_unscored += credit.episodes_unscored;
  summary.samples += credit.samples;
  summary.untimed_passes += credit.untimed_passes;
  for (const GroupCredit& group : credit.groups) {
    double sum = 0, squares = 0;
    int64_t count = 0;
    for (const EpisodeCredit& episode : group.episodes) {
      float first = kNone;
      for (const TurnCredit& turn : episode.turns) {
        if (!turn.trained()) continue;
        if (std::isnan(first)) first = static_cast<float>(*turn.reward);
        sum += *turn.reward;
        squares += *turn.reward * *turn.reward;
        summary.advantage_abs_sum += std::fabs(turn.advantage);
        ++count;
      }
      summary.rewards.push_back(first);
      ++summary.episodes;
    }
    summary.reward_sum += sum;
    summary.reward_squares += squares;
    if (count < 2) continue;
    const double mean = sum / static_cast<double>(count);
    summary.group_spreads.push_back(
        static_cast<float>(std::sqrt(std::max(0.0, squares / static_cast<double>(count) - mean * mean))));
  }
}

void Replay::HandOutCandidates(const std::vector<BatchCredit>& credits) const {
  std::vector<const TurnCredit*> row(credits.size());
  for (size_t g = 0; g < batch_.size(); ++g) {
    for (size_t e = 0; e < batch_[g].outcomes.size(); ++e) {
      for (size_t k = 0; k < batch_[g].outcomes[e].size(); ++k) {
        for (size_t p = 0; p < credits.size(); ++p) row[p] = &credits[p].groups[g].episodes[e].turns[k];
        on_candidate_({batch_[g], e, k, row});
      }
    }
  }
}

}  // namespace hone::rewards
