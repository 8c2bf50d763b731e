#pragma once

// What a replay found, as text for a terminal, as CSV and as an HTML page.

#include <cstdint>
#include <cstdio>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "rewards/lab/pipelines.h"
#include "rewards/lab/replay.h"

namespace hone::rewards {

/// A sweep whose pipelines are a run of the replay's, in order.
struct SweepRange {
  Sweep sweep;
  size_t first = 0;  // index of the pipeline at sweep.values[0]
};

struct LabResult {
  const Replay& replay;
  ReadSummary read;
  std::vector<std::string> inputs;
  std::vector<SweepRange> sweeps;
  std::vector<std::vector<double>> rank_correlation;  // [pipelines][pipelines], Spearman over episodes
};
LabResult MakeResult(const Replay& replay, ReadSummary read, std::vector<std::string> inputs,
                     std::vector<SweepRange> sweeps);

/// A table, one pipeline a line.
std::string ResultText(const LabResult& result);
/// The same with every column, for other programs.
std::string ResultCsv(const LabResult& result);
std::string ResultHtml(const LabResult& result);

/// What each candidate would have earned, one turn a line, written as the replay goes. The file appears under its name
/// only when Finish succeeds.
class CandidateCsv {
 public:
  static absl::StatusOr<std::unique_ptr<CandidateCsv>> Create(const std::string& path,
                                                              const std::vector<NamedPipeline>& pipelines);
  ~CandidateCsv();
  void Add(const CandidateRow& row);
  /// kResourceExhausted: the disk is full.
  absl::Status Finish();

 private:
  explicit CandidateCsv(std::string path) : path_(std::move(path)) {}
  std::string path_;
  std::FILE* file_ = nullptr;
  bool failed_ = false;
};

/// A CSV field: quoted when it must be.
std::string CsvField(absl::string_view text);

}  // namespace hone::rewards
