#pragma once

// What went wrong with a candidate, in words: from a runner's report or from two outputs that differ.

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/signature.h"
#include "base/task.h"
#include "base/verdict.h"
#include "verifier/device/device.h"
#include "verifier/lane/reference_worker.h"
#include "verifier/runner/runner_host.h"

namespace hone::verifier {

/// Why a candidate gets no OK.
struct Finding {
  VerdictStatus status = VerdictStatus::kRuntime;
  std::string message;
  std::optional<Mismatch> mismatch;
  std::optional<RuleHit> rule;  // of kCheat
  bool from_outside = false;    // its process was killed, and not by the judge: perhaps no fault of its own
};

/// One tensor as the runner sees it, for putting a faulting address into words.
struct PlacedTensor {
  std::string name;
  uint64_t address = 0;
  uint64_t bytes = 0;
};

/// What a report that is not ok says about the candidate. `limit` is the time it had; `output` what it printed.
Finding ExplainReport(const RunnerReport& report, const DeviceTable& device, const std::vector<PlacedTensor>& tensors,
                      absl::Duration limit, const std::string& output);

/// The same of a Python candidate's runner, whose reports say in words what was raised.
Finding ExplainPython(const RunnerReport& report, const DeviceTable& device, absl::Duration limit,
                      const std::string& output);

/// Of a runner that answered and was gone when the judge looked at its clock: `ended` says how. Killed is bad luck, like any
/// other kill; ended by itself it meant its answer to be the last thing seen of it.
Finding ExplainGone(const RunnerReport& ended, const DeviceTable& device, const std::string& output);

/// CHEAT by a rule of verifier/rules.
Finding Cheat(const std::string& rule, const std::string& evidence);

/// What checked calls of a Python candidate told about who computes, summed.
struct Workmanship {
  int calls = 0;
  int64_t custom_calls = 0;     // calls into the candidate's own kernels
  int64_t library_calls = 0;    // operators of the framework that compute
  std::string library_names;    // of one call

  void Add(const RunnerReport& report);
  /// The rules that this breaks under `policy`: `no_custom_kernel` and `library_compute`, rejecting unless the policy
  /// allows library kernels or disables the rule.
  std::vector<RuleHit> Rules(const LegalityPolicy& policy) const;
};

/// One output of one call, both sides in host memory.
struct OutputPair {
  const TensorSpec* spec = nullptr;
  const unsigned char* got = nullptr;
  const unsigned char* want = nullptr;
  uint16_t poison = 0;
};

/// The tolerance of a task for one dtype: its own for its own dtype, the default for others.
Tolerance ToleranceFor(const Task& task, DType dtype);

/// The first element that differs and a plain pattern in the differences, if there is one. The tensors do differ.
Mismatch DescribeMismatch(const OutputPair& pair, const Tolerance& tolerance, const std::string& shape);

/// Whether an output is, to a small part of the tolerance, the answer `want` of some other call. Outputs of a few elements
/// can come near by chance and are never one.
bool IsAnswer(const TensorSpec& spec, const unsigned char* got, const unsigned char* want, const Tolerance& tolerance);

/// Root-mean-square difference of the first `elements` elements, relative to the size of `want`.
double RelativeError(const TensorSpec& spec, const unsigned char* got, const unsigned char* want, int64_t elements);

/// The error that one in sixteen of the first `elements` elements reaches, relative to the element or to the root mean square
/// of all, whichever is larger. Infinities and NaN do not count.
double LargeError(const TensorSpec& spec, const unsigned char* got, const unsigned char* want, int64_t elements);

/// Above this an output was computed in a narrower format than its own: a little below what rounding to the next one costs.
/// 0: there is none to be told apart.
double ErrorOfNarrowerFormat(DType dtype);

/// Elements that still hold the poison.
int64_t CountUnwritten(const OutputPair& pair);

/// Element `index` as a number.
double ElementAt(DType dtype, const unsigned char* data, int64_t index);

}  // namespace hone::verifier
