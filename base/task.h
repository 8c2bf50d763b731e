#pragma once

// A task: a PyTorch reference in KernelBench format, the inputs it is checked on, and what a candidate may do.

#include <cstdint>
#include <optional>
#include <map>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "base/tensor.h"

namespace hone {

/// Whether a task may be trained on.
enum class Split { kTrain, kHeldOut };

/// How input values are drawn. Profiles beyond the task's own apply to floating-point inputs only.
enum class ValueProfile {
  kAsGiven,       // what get_inputs() returns
  kUniform,       // [0, 1)
  kSignedNormal,  // N(0, 1)
  kLarge,         // N(0, 1) * 100
  kSmall,         // N(0, 1) * 1e-3
  kSparse,        // N(0, 1), three quarters of the values exactly 0
  kSpecial,       // N(0, 1) with 0, -0, denormals and the largest values where the reference stays finite
};

/// |candidate - reference| <= atol + rtol * |reference|.
struct Tolerance {
  double atol = 1e-4;
  double rtol = 1e-4;
  friend bool operator==(const Tolerance&, const Tolerance&) = default;
};

/// KernelBench v0.1: 1e-4 for float32, 1e-2 for float16 and bfloat16; float64 1e-7, integers exact.
Tolerance DefaultTolerance(DType dtype);

/// Values for module-level constants of the reference (`rows = 1024`), replacing those in its text.
using Sizes = std::map<std::string, int64_t>;

/// "rows=7 cols=13", as task files and verdicts write sizes; empty for none.
std::string FormatSizes(const Sizes& sizes);
/// kInvalidArgument names the part that is not `name=number` with a number in [1, 2^40], or a name given twice.
absl::StatusOr<Sizes> ParseSizes(absl::string_view text);

/// What a candidate is allowed to do; the default is custom kernels for all the compute.
struct LegalityPolicy {
  bool allow_library_kernels = false;          // cuBLAS, cuDNN, ATen compute
  std::vector<std::string> disabled_rules;     // rule names of docs/rules.md
  friend bool operator==(const LegalityPolicy&, const LegalityPolicy&) = default;
};

struct Task {
  std::string id;      // unique within a suite, e.g. "softmax_rows"
  int level = 1;       // KernelBench's levels 1-4
  std::string family;  // "row_reduction", "elementwise", ...
  std::string description;
  Split split = Split::kTrain;
  DType dtype = DType::kFloat32;
  Tolerance tolerance;
  std::vector<Sizes> variants;  // checked besides the module's own constants; hidden from the policy
  Sizes timing;                 // constants of the timed shape; empty: the module's own
  Sizes timing_gpu;             // the same on a real device, where a shape that suits emulation is too small; empty: `timing`
  std::vector<ValueProfile> profiles = {ValueProfile::kAsGiven};
  LegalityPolicy legality;
  bool weak = false;            // the audit found that a trivial answer passes: earns no training reward
  std::string reference;        // Python module text: Model, get_inputs, get_init_inputs
  std::string scalar_baseline;  // native source timed as the baseline `scalar`; empty: none

  friend bool operator==(const Task&, const Task&) = default;
};

absl::string_view Name(Split split);
absl::string_view Name(ValueProfile profile);
std::optional<Split> ParseSplit(absl::string_view name);
std::optional<ValueProfile> ParseValueProfile(absl::string_view name);

}  // namespace hone
