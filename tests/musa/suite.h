#pragma once

// The `.mu` suite: CUDA kernels that are there for tasks of ours, each with what musify makes of it, judged by one
// verifier under both names. Through a compatibility toolchain the two are the same program on the same device, so that
// two verdicts that differ are a fault of ours: in the table, the headers, the libraries or in what the backend does
// differently.

#include <functional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "base/task.h"
#include "base/verdict.h"

namespace hone::musa {

struct SuiteProgram {
  std::string name;  // "bias_relu_sum/warp"
  Task task;
  std::string cuda;
  std::string musa;
  bool flawed = false;  // wrong on purpose, or never verified
};

/// kOne: of each task the plainest kernel, and for every fifth task one that is wrong. kAll: every style, for each task one
/// that is wrong, and an example of each family (rollout/sampler/family.h). Both with the examples.
enum class SuiteSize { kOne, kAll };

/// Programs of the named tasks (rollout/sampler/generator.h), and those in the folder `examples`. kInternal: musify
/// found no counterpart for something in one.
absl::StatusOr<std::vector<SuiteProgram>> MusaSuite(SuiteSize size, const std::string& examples);

struct SuiteOptions {
  std::string device = "cpu";            // of the CUDA originals: "cpu", "cuda"
  std::string toolchain = "compat/cpu";  // of the MUSA ones
  std::string program;                   // hone-verifier, as in LocalServerOptions
  std::string python;                    // likewise
  std::string log;                       // of the verifier; empty: discarded
  int timed = 0;                         // so many of the programs are timed too
};

struct SuitePair {
  Verdict cuda;
  Verdict musa;
  /// Status for status; a right one has every call right on both sides.
  bool agree() const {
    return cuda.status == musa.status && cuda.ok() == musa.ok() && cuda.status != VerdictStatus::kInfra;
  }
};

/// In the order of the programs. `seen` is called for each verdict as it comes, with whether it is MUSA's.
absl::StatusOr<std::vector<SuitePair>> JudgeSuite(
    const std::vector<SuiteProgram>& programs, const SuiteOptions& options,
    const std::function<void(size_t index, bool musa, const Verdict& verdict)>& seen);

}  // namespace hone::musa
