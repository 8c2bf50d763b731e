#pragma once

// The checked phase: a candidate runs on every case of its task, on fresh poisoned outputs between guard pages, with the
// device's own checks on, and every element is compared.
//
// Placement and thread order alternate between calls: tensors end at a guard page, then begin at one; blocks and threads
// run backwards, then shuffled. The timed rounds run them forwards. A device whose buffers can be mapped only whole has
// guard pages around all of its inputs and all of its outputs; between tensors there lie bytes that must not change, and
// around inputs NaNs, so that a read beside one shows in the result. When all was right,
// one more call runs with the kernels switched off, where the device can do that: an answer that comes out all the same was
// not made by them.

#include <optional>
#include <vector>

#include "absl/status/statusor.h"
#include "verifier/lane/budget.h"
#include "verifier/lane/buffers.h"
#include "verifier/lane/findings.h"
#include "verifier/lane/lane.h"
#include "verifier/lane/opened_runner.h"
#include "verifier/lane/task_sets.h"
#include "verifier/runner/runner_host.h"

namespace hone::verifier {

struct CheckResult {
  int calls = 0;
  int right = 0;
  uint64_t launches = 0;           // kernels of the last call, as the runner says
  std::optional<Finding> finding;  // empty: all calls were right, and legal
  const CheckCase* failed = nullptr;  // on which it was found; null: on none in particular
  std::vector<RuleHit> rules;      // that spoke without rejecting
  double coverage = -1;            // of the candidate's own kernels, where the calls tell; -1: unknown
  OpenedRunner opened;             // what ran it, where it can be timed too: then nothing was found
};

class Checker {
 public:
  /// All outlive the checker. The stage is the checker's alone.
  Checker(const Device* device, RunnerHost* host, SecretSeeds* seeds)
      : device_(device), host_(host), seeds_(seeds), stage_(device) {}

  absl::StatusOr<CheckResult> Check(const LaneJob& job, const TaskSets& sets, Budget& budget);

 private:
  struct Run;
  void Place(Run& run, const TaskSets& sets, uint64_t* input_bytes, uint64_t* output_bytes);
  static void JudgeWorkmanship(Run& run);
  absl::StatusOr<std::optional<Finding>> PrepareCase(Run& run, const CheckCase& check);
  absl::StatusOr<std::optional<Finding>> Call(Run& run, const CheckCase& check, int set, ThreadOrder order);
  absl::StatusOr<std::optional<Finding>> ReplayWithoutKernels(Run& run, const CheckCase& check);
  /// Whether an output that is wrong for a set is right for another one of the same shape.
  absl::StatusOr<bool> AnswersAnother(const Run& run, const CheckCase& check, int set, size_t tensor,
                                      const std::vector<unsigned char>& got);
  /// The first output of the last call that is wrong, or beside which something was written.
  struct Difference {
    size_t tensor = 0;
    enum class Where { kBefore, kAfter, kInside } where = Where::kInside;
  };
  absl::StatusOr<std::optional<Difference>> FindDifference(Run& run, const CheckCase& check, int set);
  /// That, explained.
  absl::StatusOr<std::optional<Finding>> CompareOutputs(Run& run, const CheckCase& check, int set);
  absl::StatusOr<std::optional<Finding>> CheckPrecision(Run& run, const CheckCase& check, const std::vector<double>& own_errors);
  absl::Status FillStage(Run& run, const CheckCase& check, int set);

  const Device* device_;
  RunnerHost* host_;
  SecretSeeds* seeds_;
  Stage stage_;
};

}  // namespace hone::verifier
