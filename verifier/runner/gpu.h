#pragma once

// A runner's side of a GPU: its context, the buffers it is handed, scratch memory, and the device's own clock. Plain C++
// without Abseil. In the candidate's address space, so that nothing it says is believed.

#include <cstdint>
#include <string>
#include <vector>

#include "verifier/device/cuda/driver.h"
#include "verifier/runner/protocol.h"

namespace hone::verifier {

class GpuRunner {
 public:
  /// Makes the primary context of the only visible device current, with the candidates' runtime, where it is loaded,
  /// initialised on it. 0 or the driver's error.
  int Open(const GpuDialect& dialect, const std::string& driver_library, std::string* error);

  const GpuDialect& dialect() const { return *dialect_; }

  /// Maps the buffer behind `fd` as a region says. 0 or the driver's error.
  int Map(const TableRegion& region, int fd);
  /// Forgets where earlier regions were mapped; they stay mapped.
  void BeginMapping() { moved_.clear(); }
  /// Where an address of the table lies in this process.
  uint64_t Translate(uint64_t address) const;

  /// Brings the context onto the device and begins to measure: at once, or behind the writing of `behind_mb` MiB.
  int Begin(uint32_t behind_mb);
  /// Waits for everything that was launched. `ns`: between the two as the device saw it.
  int End(int64_t* ns);

  /// Kernels that the candidate launched so far, and whether its launches do anything (launches.cc).
  uint64_t Launches() const { return count_launches_ != nullptr ? count_launches_() : 0; }
  void SwitchKernels(bool on) const {
    if (switch_launches_ != nullptr) switch_launches_(on ? 1 : 0);
  }

  int CopyIn(void* to, const void* from, uint64_t bytes);
  void* Allocate(uint64_t bytes);
  void Free(void* data);

 private:
  /// Where launches go through a library of ours, finds it: an error where artefacts would not.
  bool FindLaunches(std::string* error);

  struct Moved {
    uint64_t wanted;
    uint64_t bytes;
    uint64_t got;
  };
  const GpuDialect* dialect_ = nullptr;
  GpuDriver driver_;
  GpuAddress scratch_ = 0;
  GpuAddress written_ = 0;  // what the device writes before calls that are queued behind that
  void* events_[2] = {};
  uint64_t (*count_launches_)() = nullptr;
  void (*switch_launches_)(int) = nullptr;
  std::vector<Moved> moved_;  // regions that lie elsewhere than the table says
};

}  // namespace hone::verifier
