#pragma once

// The text forms of a task.
//
// A task file is a Python module in KernelBench's format with, optionally, a YAML header in comments at its top:
//
//   # ---
//   # id: row_range
//   # level: 1
//   # family: row_reduction
//   # split: train
//   # description: largest minus smallest value of each row
//   # variants:
//   #   - rows=1 cols=1
//   #   - rows=129 cols=257
//   # timing_gpu: rows=16384 cols=4096
//   # profiles: [as_given, large]
//   # ---
//   import torch
//   ...
//
// Every key has a default: a file without a header is plain KernelBench, its id the file's name. Sizes replace
// module-level constants, and only those that the module has. `tolerance: {atol, rtol}` defaults by dtype.
//
// The JSON form is one object a line, for collections: hone's own (`"hone_task": 1`), or KernelBench's with the fields
// level, problem_id, name and code.

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "base/task.h"

namespace hone {

/// The largest module that loads.
inline constexpr int64_t kMaxTaskBytes = 1 << 20;

/// `name` is the file's path: it stands in errors, and its stem is the default id. `Task::reference` is the text after
/// the header. kInvalidArgument, one line with file and line: a header key that is unknown, duplicate, of the wrong type
/// or out of range; a size that is no constant of the module; a module without Model, get_inputs or get_init_inputs;
/// text that is not UTF-8. The module is not run here: what it raises, the verifier reports.
absl::StatusOr<Task> ParseTaskFile(absl::string_view text, const std::string& name);

/// Header and module, which ParseTaskFile reads back to the same task. A scalar baseline has no place in a task file:
/// the JSON form carries it.
std::string FormatTaskFile(const Task& task);

/// One line, without the newline.
std::string TaskToJson(const Task& task);
/// Either JSON form. `where` ("tasks.jsonl:12") stands in errors.
absl::StatusOr<Task> TaskFromJson(absl::string_view line, const std::string& where);

/// The id, level and family that a task of KernelBench gets, whether it comes from JSON or from a checkout.
std::string KernelBenchId(int level, int problem_id);

/// Names that the module assigns at its top level, in order of appearance: what sizes may replace.
std::vector<std::string> ModuleConstants(absl::string_view module);

}  // namespace hone
