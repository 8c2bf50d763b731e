#pragma once

// Device memory of the CPU backend: host pages with guard pages on both sides, so that an access past the end faults at
// once. A block ends as close to its guard page as its alignment allows.

#include <cstddef>
#include <cstdint>

namespace hone::cpu {

/// At most this many live device allocations and registered buffers; no heap, so that a signal handler may read it.
inline constexpr int kMaxRegions = 1024;

struct Region {
  unsigned char* pages = nullptr;  // accessible pages
  size_t page_bytes = 0;
  unsigned char* begin = nullptr;  // what the candidate sees
  size_t bytes = 0;
  bool writable = true;
  bool owned = false;              // allocated here; else registered by the runner
  bool host_visible = false;       // managed or pinned host memory: never closed
  unsigned char* mapping = nullptr;
  size_t mapping_bytes = 0;
};

class Memory {
 public:
  /// 16-byte aligned address, so that the block ends at its guard page (CUDA promises 256, which would leave a gap that
  /// hides overruns), or nullptr when the host has no more.
  void* Allocate(size_t bytes, bool host_visible = false);
  /// False when `pointer` is not the start of a live allocation.
  bool Free(void* pointer);
  void FreeAll();

  bool Register(void* begin, size_t bytes, bool writable);
  void UnregisterAll();

  /// Whether host code may touch device memory. Kernels and copies run between Open() and Close().
  void Open() const;
  void Close() const;

  const Region* Find(const void* address, size_t slack_bytes) const;

 private:
  Region* Claim();
  Region regions_[kMaxRegions];
  int used_ = 0;  // regions_[0, used_) may be live
};

}  // namespace hone::cpu
