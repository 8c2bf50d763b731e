#pragma once

// Replays recorded groups through several pipelines at once and sums up what each would have paid.

#include <array>
#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "absl/types/span.h"
#include "rewards/lab/pipelines.h"
#include "rewards/lab/records.h"

namespace hone::rewards {

inline constexpr size_t kStatuses = static_cast<size_t>(VerdictStatus::kInfra) + 1;

/// What one pipeline paid.
struct PipelineSummary {
  std::string name;
  int64_t groups = 0;
  int64_t zero_signal_groups = 0;
  int64_t episodes = 0;
  int64_t episodes_unscored = 0;
  int64_t samples = 0;  // trained turns
  int64_t untimed_passes = 0;
  double reward_sum = 0;  // over samples, before smoothing
  double reward_squares = 0;
  double advantage_abs_sum = 0;
  std::vector<float> rewards;        // [episodes] of the first trained turn; NaN: no sample
  std::vector<float> group_spreads;  // [groups with two samples or more] population std of their rewards
  std::array<double, kStatuses> reward_by_status{};  // sum over samples, by the turn's own status
  std::array<int64_t, kStatuses> samples_by_status{};

  double RewardMean() const;
  double RewardStd() const;
  double ZeroSignalShare() const;
  double MeanGroupSpread() const;
};

/// A turn with what every pipeline gave it, for the table of candidates.
struct CandidateRow {
  const LabGroup& group;
  size_t episode;
  size_t turn;
  absl::Span<const TurnCredit* const> credits;  // [pipelines]
};

class Replay {
 public:
  /// `batch_groups`: groups that are normalised together where a pipeline looks at the batch. `on_candidate` may be
  /// empty.
  Replay(std::vector<NamedPipeline> pipelines, int64_t batch_groups,
         std::function<void(const CandidateRow&)> on_candidate = {});

  void Add(LabGroup&& group);
  /// The last batch may be smaller. Call once, after the last Add.
  void Finish();

  const std::vector<NamedPipeline>& pipelines() const { return pipelines_; }
  const std::vector<PipelineSummary>& summaries() const { return summaries_; }
  /// Of first turns, by status.
  const std::array<int64_t, kStatuses>& first_turn_verdicts() const { return first_turn_verdicts_; }
  /// Name of episode i of PipelineSummary::rewards: "<group> <episode>".
  std::string EpisodeName(size_t i) const;

 private:
  void ScoreBatch();
  void Account(const BatchCredit& credit, PipelineSummary& summary) const;
  void HandOutCandidates(const std::vector<BatchCredit>& credits) const;

  std::vector<NamedPipeline> pipelines_;
  int64_t batch_groups_;
  std::function<void(const CandidateRow&)> on_candidate_;
  std::vector<LabGroup> batch_;
  std::vector<PipelineSummary> summaries_;
  std::array<int64_t, kStatuses> first_turn_verdicts_{};
  std::string names_;              // of all episodes, one after another
  std::vector<size_t> name_ends_;  // [episodes]
};

}  // namespace hone::rewards
