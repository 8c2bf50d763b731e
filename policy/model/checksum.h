#pragma once

// Whether two sides hold the same weights, to the bit: one number of all of them, at the speed of the device's memory.
// Not for trust: it finds accidents, not forgeries.

#include <cstdint>

#include "ATen/core/Tensor.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace hone::policy {

/// The sum, modulo 2^64, of the tensors' mixed 8-byte words (mix.h). Each tensor's last word is filled with zeros, and
/// words are numbered through all tensors, so that one that changed, moved or changed places changes the sum.
class Checksum {
 public:
  /// Of tensors on `device`, the CPU or CUDA.
  explicit Checksum(const at::Device& device) : device_(device) {}

  /// Contiguous. On CUDA it is only queued on the current stream: the tensor's memory may be given back after it, not
  /// overwritten from another stream. kUnimplemented: CUDA in a build without it.
  absl::Status Add(const at::Tensor& tensor);
  /// Waits for the device.
  absl::StatusOr<uint64_t> Value() const;

 private:
  at::Device device_;
  uint64_t words_ = 0;
  uint64_t sum_ = 0;       // on the CPU
  at::Tensor device_sum_;  // [1] int64
};

}  // namespace hone::policy
