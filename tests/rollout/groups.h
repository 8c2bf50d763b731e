#pragma once

// Groups of episodes with given verdicts, for the rollout tests.

#include <initializer_list>
#include <string>
#include <vector>

#include "base/episode.h"

namespace hone::rollout {

inline Verdict VerdictOf(VerdictStatus status, double correct_rate = 0) {
  Verdict verdict;
  verdict.status = status;
  verdict.correct_rate = correct_rate;
  verdict.device = "cpu";
  return verdict;
}

/// A pass at a speedup with an interval of no width.
inline Verdict PassedAt(double speedup, Baseline baseline = Baseline::kEager) {
  Verdict verdict = VerdictOf(VerdictStatus::kOk, 1);
  Timing timing;
  timing.baseline = baseline;
  timing.speedup = {speedup, speedup, speedup, 7};
  verdict.timings = {timing};
  return verdict;
}

/// One episode of one turn for each verdict; sources are "source 0", "source 1", ...
inline Group GroupOf(const std::string& task_id, const std::vector<Verdict>& verdicts, bool retry = false) {
  Group group;
  group.task_id = task_id;
  for (size_t i = 0; i < verdicts.size(); ++i) {
    Turn turn;
    turn.source = "source " + std::to_string(i);
    turn.verdict = verdicts[i];
    Episode& episode = group.episodes.emplace_back();
    episode.task_id = task_id;
    episode.retry = retry;
    episode.turns = {turn};
  }
  return group;
}

}  // namespace hone::rollout
