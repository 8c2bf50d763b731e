#pragma once

// A device as judge and runner use it: one table of function pointers for each backend, so that the lane's code is the
// same on all of them and a binary needs no vendor library to start. Plain C++ without Abseil: the runner uses it too.
//
//   judge   allocates buffers that can be exported, fills, poisons, compares, and reads the clock
//   runner  imports the buffers it is handed and waits for the device
//
// Every function has finished its work on the device when it returns. It returns 0 or an error code of the backend; `error_name` says what it means. A device belongs to one thread.

#include <cstdint>
#include <string>
#include <sys/types.h>
#include <vector>

namespace hone::verifier {

struct DeviceProperties {
  std::string name;
  int64_t cache_bytes = 0;   // the cache that a timed round must find cold: last level of a GPU, per-core L2 of a CPU
  double clock_mhz = 0;      // of a CPU now, of a GPU at most; 0: unknown
  double peak_bytes_per_ns = 0;  // more than its memory system can ever write; 0: unknown
  bool emulated = false;     // its times say nothing about a GPU
  int64_t memory_bytes = 0;  // of the device itself; 0: the host's
  uint64_t map_unit = 4096;  // sizes of buffers that a runner maps are multiples of it
  bool maps_parts = true;    // a runner can map parts of a buffer; else only the whole
  std::string architecture;  // as its compiler calls it: "sm_90"; empty: the host's

  // How a child process finds the device and nothing else.
  std::string unique_id;              // "GPU-..."; empty: there is nothing to choose
  std::string driver_library;         // absolute path
  std::vector<std::string> nodes;     // "/dev/nvidia0", ...
};

/// What a runner may do with a buffer.
enum class Access : int { kRead = 0, kReadWrite = 1 };

/// Memory of the device. `data` is usable in this process; `handle` belongs to the backend.
struct DeviceBuffer {
  void* data = nullptr;
  uint64_t bytes = 0;
  int64_t handle = -1;
};

/// Elements of one output against what the reference says, in double precision:
/// |got - want| <= atol + rtol |want|, NaN and infinities by position, integers exactly.
struct Comparison {
  const void* got = nullptr;
  const void* want = nullptr;
  uint64_t count = 0;
  int dtype = 0;          // hone::DType
  double atol = 0;
  double rtol = 0;
  uint16_t poison = 0;    // an element that still holds it was not written, and differs
};

/// Device memory to device memory.
struct Copy {
  void* to = nullptr;
  const void* from = nullptr;
  uint64_t bytes = 0;
};

struct Span {
  const void* data = nullptr;
  uint64_t bytes = 0;
};

struct GpuDialect;

struct DeviceTable {
  const char* name;     // "cpu", "cuda", "musa", "musa-compat/cuda", "musa-compat/cpu"
  const char* backend;  // whose candidates it runs: "cpu", "cuda", "musa"
  const GpuDialect* dialect;  // null: the host's memory
  const char* torch_device;   // where references run: "cuda", "musa"; empty: the CPU

  int (*open)(int index, void** device);
  void (*close)(void* device);
  int (*properties)(void* device, DeviceProperties* properties);
  const char* (*error_name)(int code);          // of these functions' codes
  const char* (*launch_error_name)(int code);   // of what a candidate's call returns: "cudaErrorInvalidConfiguration"
  int out_of_memory;                            // the launch error that means so

  // Judge.
  int (*allocate)(void* device, uint64_t bytes, DeviceBuffer* buffer);
  void (*release)(void* device, DeviceBuffer* buffer);
  /// A new descriptor through which another process can import the buffer. After an export for reading, no process that
  /// imports it can ever write to it; this one still can.
  int (*export_fd)(void* device, const DeviceBuffer* buffer, Access access, int* fd);
  int (*copy_in)(void* device, void* to, const void* from, uint64_t bytes);    // to the device
  int (*copy_out)(void* device, void* to, const void* from, uint64_t bytes);   // to the host
  int (*copy)(void* device, const Copy* copies, int count);                    // within the device
  /// Repeats `pattern` over the bytes, which begin at an even address.
  int (*poison)(void* device, void* to, uint64_t bytes, uint16_t pattern);
  /// Counts bytes that no longer hold the pattern, over all spans.
  int (*count_changed)(void* device, const Span* spans, int count, uint16_t pattern, uint64_t* changed);
  /// Counts the elements that differ in each of `count` comparisons.
  int (*compare)(void* device, const Comparison* comparisons, int count, uint64_t* differing);
  /// Pushes everything else out of the cache that the calling core shares with runners bound to it. Null where a round's
  /// sets have to be more than the cache holds instead.
  int (*evict)(void* device);
  /// The clock of timed rounds, in ns: on the CPU the processor time that the kernel accounts to process `runner`, on a
  /// GPU monotonic time. Read before a round's message is sent and after its answer. -1: the process is gone.
  int64_t (*clock_ns)(void* device, pid_t runner);
  bool clock_is_wall;  // it runs on while the runner waits
  /// The clock that kernels run at now, measured by one. Null where nothing throttles.
  int (*measure_clock)(void* device, double* mhz);
  /// Whether the device still computes rightly, for after a candidate that faulted or was killed. Null: no need.
  int (*probe)(void* device);
};

/// The host's cores with CUDA emulated on them; buffers are sealed memory files.
const DeviceTable& CpuDeviceTable();

/// NVIDIA GPUs through the driver, opened at run time. Buffers are physical allocations that cross processes as
/// descriptors; kernels of the judge are compiled at its start, and where no run-time compiler is found the host compares.
/// Whoever imports a buffer of a GPU for reading could still map it for writing: what was handed out is never believed.
const DeviceTable& CudaDeviceTable();

/// Moore Threads GPUs: the same through MUSA's driver.
const DeviceTable& MusaDeviceTable();

/// What MUSA candidates run on where there is no such GPU (docs/musa.md): an NVIDIA GPU through a driver library of ours that
/// has MUSA's names and hands everything to CUDA's, and the host's cores.
const DeviceTable& MusaOnCudaDeviceTable();
const DeviceTable& MusaOnCpuDeviceTable();

/// The table of a name, or null; and all of them.
const DeviceTable* FindDeviceTable(const std::string& name);
std::vector<const DeviceTable*> DeviceTables();

}  // namespace hone::verifier
