#pragma once

// A named tensor whose bytes live elsewhere: in a mapped file, in a torch tensor, in a buffer of the caller.

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/types/span.h"
#include "base/tensor.h"

namespace hone::policy {

struct TensorView {
  std::string name;
  DType dtype = DType::kFloat32;
  std::vector<int64_t> shape;
  absl::Span<const std::byte> bytes;  // row-major, little-endian; borrowed
};

}  // namespace hone::policy
