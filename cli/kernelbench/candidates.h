#pragma once

// What `hone eval kernelbench` is given: candidates for KernelBench's tasks, perhaps with the speedup that somebody
// claims.

#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "base/candidate.h"
#include "base/task.h"

namespace hone::cli {

struct EvalCandidate {
  std::string id;  // unique: of the task, with the sample's number behind it where a task has several
  Task task;
  int problem_id = 0;  // KernelBench's, within its level; 0: unknown
  std::string source;  // empty: none was given for this task
  Format format = Format::kTorch;
  std::optional<double> claimed_speedup;
};

struct CandidateFilter {
  std::vector<int> levels;       // empty: all
  std::vector<std::string> ids;  // of tasks; empty: all
};

/// Reads `path`:
///   *.jsonl  one object a line. Published collections: level, problem_id, reference, candidate (null or "None" where
///   there
///            is none), published_speedup. Our own: task (an id of `tasks`) or level and problem_id, candidate, and
///            optionally format, claimed_speedup, sample.
///   folder   level_1_problem_23_sample_0_kernel.py, 1_23.py, <task id>.py, and .cu for native candidates
/// `tasks`: where tasks come from that a line does not bring itself. kInvalidArgument names file, line and what is
/// wrong.
absl::StatusOr<std::vector<EvalCandidate>> LoadCandidates(const std::string& path, const std::vector<Task>& tasks,
                                                          const CandidateFilter& filter);

}  // namespace hone::cli
