#pragma once

// Recorded episodes as the lab reads them: only what rewards look at, a group at a time, in constant memory.
//
// Formats, told apart by their content:
//   journal      hone's journal (docs/journal.md), .jsonl.zst or .jsonl
//   kernelbench  eval_results.json of KernelBench: {"<problem>": {...} or [{...}, ...]} with compiled, correctness,
//   runtime kernelgym    KernelGYM evaluation results, one JSON object a line cuda-l1      {"level", "problem_id",
//   "candidate", "published_speedup"} a line; the speedups are their authors' claims
// Files are only ever read.

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "rewards/outcome.h"

namespace hone::rewards {

/// One group with its outcomes. Groups of foreign formats are the samples of one problem, each an episode of one turn.
struct LabGroup {
  std::string id;
  std::string task_id;
  std::vector<std::string> episode_ids;      // [episodes]
  GroupOutcomes outcomes;                    // [episodes][turns]
  std::vector<std::vector<double>> samples;  // what Outcome::samples points into
  std::vector<std::string> devices;          // of its passes, distinct; empty: none passed, or not recorded
  std::vector<std::string> protocols;        // likewise
  bool emulated = false;                     // some timing is of the CPU backend
};

struct ReadOptions {
  std::string device;          // keep groups of this device only; empty: all, which must then be of one kind
  std::string baseline_times;  // KernelBench's baseline_time_*.json, for results without a speedup of their own
  int64_t level = 0;           // of those results; 0: only problem numbers that occur in one level
};

struct ReadSummary {
  int64_t groups = 0;
  int64_t episodes = 0;
  int64_t other_devices = 0;  // groups left out by ReadOptions::device
  bool emulated = false;
  std::string device;  // that the passes were timed on; empty: not recorded
  std::string protocol;
  std::vector<std::string> warnings;  // cut files, records without a candidate
};

/// Calls `visit` for every group of the files, in order; `group` may be moved from. Reading and parsing run on a thread
/// of their own beside the caller's `visit`. kInvalidArgument: an unknown format, a newer schema, a record with the
/// wrong type (names file, line and field), or no episodes at all. kFailedPrecondition: passes of two devices or two
/// protocols (names both). kDataLoss: corrupt in the middle. A file cut in mid-record gives its whole records and a
/// warning.
absl::StatusOr<ReadSummary> ReadGroups(const std::vector<std::string>& paths, const ReadOptions& options,
                                       const std::function<absl::Status(LabGroup&& group)>& visit);

}  // namespace hone::rewards
