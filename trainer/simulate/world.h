#pragma once

// The world of a simulation: tasks with the candidates that a policy may answer, and how likely it answers them at
// first.

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "rewards/lab/records.h"
#include "rewards/outcome.h"

namespace hone::trainer {

struct SimTask {
  std::string id;
  std::vector<rewards::Outcome> candidates;  // distinct, INFRA left out
  std::vector<double> logits;                // [candidates] of the policy at the start
};

struct World {
  std::vector<SimTask> tasks;
  int64_t tasks_left_out = 0;  // recorded tasks with a single distinct outcome: nothing could be learned there
};

/// The distinct outcomes of every recorded task, each as likely at first as it was in the recording. Outcomes are one
/// candidate when status, rate of right checks and speedup (to two digits) agree.
/// Errors: those of ReadGroups; kInvalidArgument when no task has two distinct outcomes.
absl::StatusOr<World> RecordedWorld(const std::vector<std::string>& paths, const rewards::ReadOptions& options);

/// A made-up world for looking at mechanisms without a recording. Of `tasks`, a quarter is hard: a pass has a
/// probability of a few in a thousand, so that a group of eight nearly always fails. Passes range from half to four
/// times the baseline's speed, faster ones being rarer; failures are of all kinds. Equal seeds give equal worlds.
World SyntheticWorld(int64_t tasks, uint64_t seed);

}  // namespace hone::trainer
