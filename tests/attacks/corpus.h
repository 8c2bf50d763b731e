#pragma once

// The attack corpus: programs that try to earn what they did not do, and honest ones that look like them. Each file begins
// with a comment of `key: value` lines:
//
//   attack     what it does
//   expect     the statuses that its verdict may have
//   rule       a rule that its verdict must name (optional)
//   behind     of Python programs: the statuses that its verdict may have where every rule over its text is switched off and
//              library kernels are allowed, so that nothing but structure is left (optional)
//   harmless   why it may be OK all the same (optional): it gains nothing
//   gpu        why it may be OK on a GPU, where its filter has to let pass what a driver calls (optional): it gains nothing
//   flags      rules that speak without rejecting (optional)
//   task       tests/attacks/tasks/<task>.py; default row_scale
//   with       preambles that are put before it (optional)
//   lane       cpu or device; default both
//   why        what stops it

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "base/candidate.h"
#include "base/task.h"
#include "base/verdict.h"

namespace hone::attacks {

struct Program {
  std::string name;    // "a_timer/answer_first.cu"
  std::string source;  // with its preambles
  std::string attack, why, harmless, gpu, task = "row_scale", rule, lane;
  std::vector<VerdictStatus> expect, behind;
  std::vector<std::string> flags;

  char letter() const { return name.empty() ? '?' : name[0]; }
  bool honest() const { return letter() == 'i'; }
  Format format() const;
};

/// The program's task, `legality` with all rules over a Python candidate's text switched off where the task is to be `open`.
absl::StatusOr<Task> TaskOf(const Program& program, const std::string& folder, bool open);

/// Every program below `folder` whose name ends in `extension`, by name. kInvalidArgument names the file and the line that
/// is missing or unknown.
absl::StatusOr<std::vector<Program>> LoadCorpus(const std::string& folder, const std::string& extension);

}  // namespace hone::attacks
