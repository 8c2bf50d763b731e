#pragma once

// The task audit: would an answer that does no work earn a verdict of OK? Runs each task's PyTorch reference on the CPU
// (audit_worker.py, a child process) and scores trivial answers against it on several draws of the inputs:
//
//   zero, one      filled with 0, with 1
//   constant       filled with the mean, or the median, of what the reference gave for other inputs
//   input_mean     filled with the mean of an input
//   identity       an input as it is
//   other_inputs   what the reference gave for other inputs: the output does not depend on them
//
// One pass on any draw makes a task weak: it earns no training reward (Task::weak). A reference that raises, differs
// between two calls on the same inputs or returns values that are not finite makes it unusable. Faint: no trivial answer
// passes, but half of the output lies within kFaintSpread tolerances of its mean.
//
// An operation is redundant when the reference's answer stays right, on two draws, with what goes into it handed on in its
// place, or with noise in place of its result. A candidate may leave it out: that is insight, and no cheat; but a speedup
// that comes of it says nothing about kernels. Such tasks are named; their outcome stays.
//
// A task whose cost (from shape functions, nothing is run) is above the limits is audited with smaller constants, batches
// cut first and then the largest constant halved; the result names them. What cannot shrink is skipped with the reason.

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "base/task.h"

namespace hone::verifier {

inline constexpr double kFaintSpread = 10;

struct AuditOptions {
  std::string python;                         // interpreter with torch
  double max_operations = 2e9;                // of one call of the reference
  int64_t max_tensor_bytes = int64_t{1} << 27;  // inputs, parameters and outputs together
  int64_t max_process_bytes = int64_t{6} << 30;  // what the worker may map beyond torch itself
  absl::Duration per_task = absl::Seconds(90);
  int threads = 1;
  absl::Duration redundancy = absl::Seconds(5);  // for one task's operations; those not tried by then are said
};

struct TaskAudit {
  enum class Outcome { kSound, kFaint, kWeak, kUnusable, kSkipped };

  std::string id;
  Outcome outcome = Outcome::kSkipped;
  std::string reason;                          // of kUnusable and kSkipped, one line
  std::vector<std::string> weak_by;            // trivial answers that passed
  std::vector<std::string> redundant;          // "relu (3 of 7, left out)"
  int operations = 0;                          // of one call, without views and copies
  int operations_tried = 0;
  std::map<std::string, double> nearest;       // trivial answer -> largest share of right elements, [0, 1]
  std::optional<double> spread_in_tolerances;  // median distance of an output element from the mean; floating outputs
  std::optional<double> own_error_in_tolerances;  // of the reference against itself in float64, the worst variant and profile
  std::string own_error_at;                    // which one
  Sizes sizes;                                 // constants that were made smaller; empty: as given
  double seconds = 0;
};

absl::string_view Name(TaskAudit::Outcome outcome);

/// One result a task, in order; `on_result` (may be empty) is called as each is known. A worker that hangs or dies costs
/// the task it was on, which is skipped with the reason. A Status is ours: no such interpreter, no torch in it
/// (kFailedPrecondition, with its first error line).
absl::StatusOr<std::vector<TaskAudit>> AuditTasks(absl::Span<const Task> tasks, const AuditOptions& options,
                                                  const std::function<void(const TaskAudit&)>& on_result);

/// One JSON object, one line.
std::string AuditToJson(const TaskAudit& audit);

/// A page with the counts, the tasks that are not sound with the reason, and the skipped ones. `title` names the collection.
std::string AuditToMarkdown(absl::string_view title, absl::Span<const TaskAudit> audits);

}  // namespace hone::verifier
