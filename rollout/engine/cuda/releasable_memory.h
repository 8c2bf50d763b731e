#pragma once

// Device memory whose addresses stay while the memory behind them is given back and taken again: a CUDA graph that was
// recorded over it stays valid. CUDA's virtual memory management: addresses are reserved once, physical memory is mapped
// there and unmapped.

#include <cuda.h>

#include <cstdint>
#include <memory>

namespace hone::rollout::cuda {

/// Not thread-safe. Functions throw c10::Error.
class ReleasableMemory {
 public:
  /// Reserves addresses for at least `bytes` on the device with this index; nothing is behind them yet.
  static std::unique_ptr<ReleasableMemory> Reserve(int device, int64_t bytes);
  ~ReleasableMemory();
  ReleasableMemory(const ReleasableMemory&) = delete;
  ReleasableMemory& operator=(const ReleasableMemory&) = delete;

  /// The same for life. Nothing may touch it unless held().
  void* data() const { return reinterpret_cast<void*>(address_); }
  bool held() const { return allocation_ != 0; }

  /// Takes the memory, all zeros; waits for the device. What torch keeps unused is given up for it. No effect while held.
  /// c10::OutOfMemoryError: the device has not so much.
  void Take();
  /// Gives the memory back. What was queued on it must have ended.
  void Release();

 private:
  explicit ReleasableMemory(int device) : device_(device) {}
  CUresult Create();
  void Map();

  int device_;
  size_t bytes_ = 0;
  CUdeviceptr address_ = 0;
  CUmemGenericAllocationHandle allocation_ = 0;
};

}  // namespace hone::rollout::cuda
