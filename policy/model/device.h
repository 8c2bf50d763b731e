#pragma once

// Where tensors live. libtorch's CUDA half is loaded when a CUDA device is first asked for, so that everything else
// starts fast and runs on machines without a GPU.

#include <cstdint>
#include <string>

#include "ATen/core/Tensor.h"
#include "absl/status/statusor.h"

namespace hone::policy {

/// "cpu", "cuda" (device 0) or "cuda:<n>". kInvalidArgument: another word. kFailedPrecondition says why there is no
/// such device: libtorch_cuda.so cannot be loaded, or the driver shows fewer devices.
absl::StatusOr<at::Device> FindDevice(const std::string& name);

/// Makes `device` the calling thread's current one: streams and allocations of operators follow it.
void UseDevice(const at::Device& device);

/// Waits until everything queued on the device's current stream is done. Nothing to do on the CPU.
void Synchronize(const at::Device& device);

/// The device's current stream as CUDA's handle.
void* CurrentStream(const at::Device& device);

struct DeviceMemory {
  int64_t allocated_bytes = 0;
  int64_t peak_bytes = 0;  // since the last ResetPeakMemory
  int64_t reserved_peak_bytes = 0;
  int64_t used_bytes = 0;  // of the device, by whomever
};
/// What a GPU has free, torch's unused blocks not counted; 0 on the CPU.
int64_t FreeBytes(const at::Device& device);

/// Of torch's allocator, but for used_bytes; zeros on the CPU.
DeviceMemory MemoryOf(const at::Device& device);
void ResetPeakMemory(const at::Device& device);

/// FLOP/s of bf16 matrix products without sparsity, as the maker states them for this kind of GPU (A100, H100 and H200,
/// B200 by their compute capability); 0 where it is not known, on the CPU too.
double PeakFlops(const at::Device& device);

}  // namespace hone::policy
