#pragma once

// What a policy achieves on a list of tasks: pass rates, speedups and the mix of verdicts, with intervals over tasks.

#include <map>
#include <string>
#include <vector>

#include "absl/types/span.h"
#include "base/bootstrap.h"
#include "base/episode.h"
#include "base/protocol.h"

namespace hone::rollout {

/// Figures of the first turn of every episode. Episodes whose verdict is INFRA are left out and counted.
struct TaskEvaluation {
  std::string task_id;
  int samples = 0;
  int correct = 0;
  std::map<std::string, double> geometric_mean;  // speedup of the correct ones, by baseline name
};

struct SpeedEvaluation {
  Interval geometric_mean;  // over all correct samples
  Interval median;
  Interval fast_1;  // mean over tasks of the share of samples that are correct and faster than the baseline (KernelBench)
};

struct Evaluation {
  Interval correct_rate;                            // mean over tasks of the share of correct samples: Pass@1
  Interval solved_rate;                             // share of tasks with a correct sample: Pass@k at k samples a task
  Interval built_rate;                              // mean over tasks of the share of samples that compile
  std::map<std::string, SpeedEvaluation> speedups;  // by baseline name: "scalar", "eager"
  std::map<std::string, int> verdicts;              // by status name
  std::vector<TaskEvaluation> tasks;                // in order of first appearance
  int samples = 0;
  int infra = 0;
};

/// One group a task; several groups of one task are pooled. Speedups are medians of the verdicts' paired ratios.
Evaluation Evaluate(absl::Span<const Group> groups);

/// A JSON object with every figure, NaN as null.
std::string ToJson(const Evaluation& evaluation);

/// The figures as a table for people, one line each.
std::string ToText(const Evaluation& evaluation);

}  // namespace hone::rollout
