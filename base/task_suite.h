#pragma once

// Where tasks come from: the built-in suite, a file, a folder, a KernelBench checkout, a JSONL collection.

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "base/task.h"

namespace hone {

/// The suite that ships with the programs.
std::string SuiteFolder();

/// Every task of `path`, in the order of file names (numbers in them by value) or lines:
///   *.py                 one task
///   *.jsonl              one task a line, hone's or KernelBench's
///   KernelBench checkout KernelBench/level1 ... level4 below `path`, or those folders in it
///   folder               every *.py in it and below
/// kNotFound: no such path. kInvalidArgument, one line: a task that does not parse, two tasks with one id, or no task.
absl::StatusOr<std::vector<Task>> LoadTasks(const std::string& path);

/// One task: by path when `name` is one (a collection of several is an error), else by its id in the built-in suite.
/// kNotFound suggests the nearest id.
absl::StatusOr<Task> LoadTask(const std::string& name);

}  // namespace hone
