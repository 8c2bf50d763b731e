#pragma once

// Measured figures: bench/results.json, which the bench programs write themselves, and docs/benchmarks.md, which is
// rendered from it. Nothing else in the repository states a figure.

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace hone {

/// One figure.
struct BenchResult {
  std::string id;  // "verify_cpu.warm_per_s"; the part before the first dot groups the table
  double value = 0;
  std::string unit;     // "1/s", "s", "MB", "x", "share"
  std::string command;  // what a reader types to measure it again
  std::string machine;  // kind of machine: MachineKind(), "NVIDIA H200"
  std::string date;     // UTC, "2026-11-30"
  std::string commit;   // short hash, "-dirty" where the tree had changes
  friend bool operator==(const BenchResult&, const BenchResult&) = default;
};

/// "2 cores, Intel(R) Xeon(R) ...": of the machine that runs this.
std::string MachineKind();
/// Today in UTC.
std::string Today();
/// The command line of this process, as a reader types it in the checkout: see CommandText.
std::string ThisCommand(const std::string& source_folder);
/// Arguments in one line for a shell: paths relative to the folder (which need not exist) or to the home folder, quotes
/// where they are needed. `--only-read` is left out: it reads what the same command without it has measured.
std::string CommandText(const std::vector<std::string>& arguments, const std::string& folder, const std::string& home);
/// The checkout's commit, or "unknown" outside of one.
std::string CurrentCommit(const std::string& source_folder);

/// kInvalidArgument: names the entry and field that is wrong. A file that does not exist has no results.
absl::StatusOr<std::vector<BenchResult>> ReadResults(const std::string& path);

/// Puts the figures into the file, each in the place of an earlier one with the same id and machine. Readers see the
/// old file or the new one; programs that record at the same time do not lose each other's figures: they take turns by a
/// lock on `path`.lock, which stays. kInvalidArgument: a value that is not finite, or an empty id, unit, command or machine.
absl::Status RecordResults(const std::string& path, const std::vector<BenchResult>& results);

/// The page docs/benchmarks.md: one table for each group of ids.
std::string RenderBenchmarks(const std::vector<BenchResult>& results);

}  // namespace hone
