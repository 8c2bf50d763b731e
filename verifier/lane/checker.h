#pragma once

// The checked phase: a candidate runs on every case of its task, on fresh poisoned outputs between guard pages, with the
// device's own checks on, and every element is compared.
//
// Placement and thread order alternate between calls: tensors end at a guard page, then begin at one; blocks and threads
// run backwards, then shuffled. The timed rounds run them forwards.

#include <optional>
#include <vector>

#include "absl/status/statusor.h"
#include "verifier/lane/budget.h"
#include "verifier/lane/buffers.h"
#include "verifier/lane/findings.h"
#include "verifier/lane/lane.h"
#include "verifier/lane/task_sets.h"
#include "verifier/runner/runner_host.h"

namespace hone::verifier {

struct CheckResult {
  int calls = 0;
  int right = 0;
  std::optional<Finding> finding;  // empty: all calls were right, and legal
  std::vector<RuleHit> rules;      // that spoke without rejecting
  double coverage = -1;            // of the candidate's own kernels, where the calls tell; -1: unknown
};

class Checker {
 public:
  /// All outlive the checker. The stage is the checker's alone.
  Checker(const Device* device, RunnerHost* host, SecretSeeds* seeds)
      : device_(device), host_(host), seeds_(seeds), stage_(device) {}

  absl::StatusOr<CheckResult> Check(const LaneJob& job, const TaskSets& sets, Budget& budget);

 private:
  struct Run;
  absl::Status Map(Run& run);
  static void JudgeWorkmanship(Run& run);
  absl::StatusOr<std::optional<Finding>> PrepareCase(Run& run, const CheckCase& check);
  absl::StatusOr<std::optional<Finding>> Call(Run& run, const CheckCase& check, int set, ThreadOrder order);
  absl::StatusOr<std::optional<Finding>> CompareOutputs(Run& run, const CheckCase& check, int set);
  absl::Status FillStage(Run& run, const CheckCase& check, int set);

  const Device* device_;
  RunnerHost* host_;
  SecretSeeds* seeds_;
  Stage stage_;
};

}  // namespace hone::verifier
