#pragma once

// Verdicts of an evaluation on disk, one line each as they come, so that a run that was killed goes on where it stood;
// and what they sum up to.

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "base/verdict.h"
#include "cli/kernelbench/candidates.h"

namespace hone::cli {

/// One candidate and what came of it.
struct EvalResult {
  std::string id;
  std::string key;  // of all that the verdict depends on
  int level = 0;
  int problem_id = 0;
  bool given = false;  // there was a candidate
  std::optional<double> claimed_speedup;
  Verdict verdict;

  bool correct() const { return verdict.status == VerdictStatus::kOk; }
  /// Median speedup over the protocol's first baseline; 0 where it is not OK or not timed.
  double speedup() const { return correct() && verdict.speed() != nullptr ? verdict.speed()->speedup.median : 0; }
};

std::string EvalResultToJson(const EvalResult& result);
/// `where` stands in errors.
absl::StatusOr<EvalResult> EvalResultFromJson(absl::string_view line, const std::string& where);

/// Results in `path`, the last one of each id; none where there is no file. A last line cut by a kill is left out.
absl::StatusOr<std::vector<EvalResult>> ReadEvalResults(const std::string& path);

/// Figures of one level, or of all, over the candidates that were given.
struct EvalSummary {
  int n = 0;
  int missing = 0;   // tasks without a candidate, not in n
  int compiled = 0;  // got as far as running
  int correct = 0;
  double fast_0 = 0;  // shares of n that are correct and faster than 0, 1 and 2 times the baseline
  double fast_1 = 0;
  double fast_2 = 0;
  double geometric_mean = 0;       // of the speedups of correct candidates; 0: none
  double geometric_mean_fast = 0;  // of those above 1
  std::map<std::string, int> statuses;
};

/// fast_p as KernelBench defines it: correct and speedup > p, over all n.
EvalSummary Summarise(const std::vector<EvalResult>& results);

}  // namespace hone::cli
