#pragma once

// Element types and tensor descriptions, as they appear in tasks, signatures and the lane's buffers.

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"

namespace hone {

enum class DType { kFloat32, kFloat16, kBFloat16, kFloat64, kInt32, kInt64, kInt8, kUInt8, kBool };

/// Bytes of one element.
int64_t ByteSize(DType dtype);
bool IsFloating(DType dtype);
/// PyTorch's name without the prefix: "float32", "bfloat16", "int64", "bool".
absl::string_view Name(DType dtype);
std::optional<DType> ParseDType(absl::string_view name);

/// A dense row-major tensor's description. Strides other than row-major are given in elements.
struct TensorSpec {
  std::string name;
  DType dtype = DType::kFloat32;
  std::vector<int64_t> shape;
  std::vector<int64_t> strides;  // empty: row-major contiguous

  int64_t Elements() const;  // product of shape; 1 for a scalar tensor
  int64_t Bytes() const { return Elements() * ByteSize(dtype); }
  friend bool operator==(const TensorSpec&, const TensorSpec&) = default;
};

}  // namespace hone
