#pragma once

// The typed entry point of a native candidate, derived once per task by tracing its reference:
//   extern "C" void launch(const float* x, const float* weight, float* out, int rows, int cols, float eps, cudaStream_t stream)
// Order: inputs, parameters and buffers in state-dict order, outputs, every size that occurs, scalars, stream.

#include <cstdint>
#include <string>
#include <vector>

#include "base/tensor.h"

namespace hone {

struct TensorArgument {
  enum class Role { kInput, kParameter, kOutput };
  Role role = Role::kInput;
  TensorSpec spec;                        // at the task's own constants
  std::vector<std::string> dimensions;    // name of each dimension's size, e.g. {"rows", "cols"}; "7" for a constant
  friend bool operator==(const TensorArgument&, const TensorArgument&) = default;
};

struct SizeArgument {
  std::string name;
  int64_t value = 0;   // at the task's own constants
  bool wide = false;   // int64_t where an element count can reach 2^31, else int
  friend bool operator==(const SizeArgument&, const SizeArgument&) = default;
};

struct ScalarArgument {
  std::string name;
  bool integral = false;  // int64_t, else float
  double value = 0;
  friend bool operator==(const ScalarArgument&, const ScalarArgument&) = default;
};

struct Signature {
  std::vector<TensorArgument> tensors;  // inputs, parameters, outputs
  std::vector<SizeArgument> sizes;
  std::vector<ScalarArgument> scalars;

  /// The C++ declaration of `launch`, one line, without a semicolon.
  std::string Declaration() const;
  friend bool operator==(const Signature&, const Signature&) = default;
};

/// C++ type of one element on the device: "float", "__half", "int64_t", "bool".
std::string CudaType(DType dtype);

}  // namespace hone
