#pragma once

// Results of other systems as groups. See records.h for the formats.

#include <functional>
#include <map>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "rewards/lab/records.h"

namespace hone::rewards {

/// What a JSON Lines file holds, by its first record.
enum class LineFormat { kJournal, kKernelGym, kCudaL1, kUnknown };
LineFormat FormatOfLine(absl::string_view first_line);

/// One record of CUDA-L1's published candidates. False: it has no candidate.
absl::StatusOr<bool> ReadCudaL1Line(absl::string_view line, LabGroup& group);

/// Gathers KernelGYM results of one problem into a group: by `group_id`, `problem_id`, `base_task_id` or `task_id`,
/// whichever a record has first. Groups are given out by Finish, in order of first appearance.
class KernelGymReader {
 public:
  absl::Status Add(absl::string_view line);
  absl::Status Finish(const std::function<absl::Status(LabGroup&&)>& visit);

 private:
  std::vector<LabGroup> groups_;
  std::map<std::string, size_t> index_;
};

/// KernelBench's eval_results.json.
absl::Status ReadKernelBench(absl::string_view json, const std::string& path, const ReadOptions& options,
                             const std::function<absl::Status(LabGroup&&)>& visit);

}  // namespace hone::rewards
