#pragma once

// The driver API of CUDA, and of vendors whose API is CUDA's under another prefix, opened at run time: a binary needs no
// vendor library to be built or to start. Plain C++ without Abseil, because the candidate's runner uses it too.
//
// Types follow cuda.h; a test compiles them against it where it is installed.

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace hone::verifier {

/// What differs between vendors.
struct GpuDialect {
  const char* name;                      // of its device table: "cuda", "musa-compat/cuda"
  const char* driver_library;            // "libcuda.so.1"; with a slash: below the prefix that the program is installed in
  const char* driver_prefix;             // "cu", as in cuInit
  const char* runtime_libraries[4];      // of candidates, the newest first; null ends the list
  const char* runtime_prefix;            // "cuda", as in cudaFree
  const char* compiler_libraries[4];     // compiles the judge's kernels at run time; null ends the list
  const char* compiler_prefix;           // "nvrtc", as in nvrtcCompileProgram
  const char* binary_name;               // what the compiler calls its result: "CUBIN", as in nvrtcGetCUBIN
  const char* architecture_prefix;       // "sm_"
  const char* clock_kernel;              // source of hone_clock, or null where a kernel cannot read the time
  const char* toolkit_variables[3];      // environment variables that name the toolkit's folder; null ends the list
  const char* toolkit_folder;            // where it is if none does
  const char* visible_devices;           // environment variable that hides devices: "CUDA_VISIBLE_DEVICES"
  const char* uuid_prefix;               // of what that variable names a device by: "GPU-"; null: by its index
  /// Device nodes of the GPU at a bus address ("0000:3b:00.0") with an index, whether they are there or not.
  std::vector<std::string> (*nodes)(const std::string& bus_address, int index);
};

extern const GpuDialect kCudaDialect;

using GpuAddress = unsigned long long;
using GpuAllocation = unsigned long long;

struct GpuMemoryLocation {
  int type = 1;  // device memory
  int id = 0;    // ordinal
};

struct GpuAllocationProperties {
  int type = 1;          // pinned
  int handle_types = 1;  // POSIX file descriptor
  GpuMemoryLocation location;
  void* windows = nullptr;
  unsigned char flags[8] = {};
};

struct GpuAccess {
  GpuMemoryLocation location;
  int flags = 3;
};
inline constexpr int kGpuRead = 1;
inline constexpr int kGpuReadWrite = 3;
inline constexpr int kGpuFileDescriptor = 1;

/// cuda.h's CUdevice_attribute.
enum class GpuAttribute : int {
  kClockKhz = 13,
  kMultiprocessors = 16,
  kCacheBytes = 38,
  kMajor = 75,
  kMinor = 76,
};

/// Function pointers under their names in cuda.h without the prefix.
struct GpuDriver {
  int (*Init)(unsigned) = nullptr;
  int (*DeviceGet)(int* device, int ordinal) = nullptr;
  int (*DeviceGetCount)(int* count) = nullptr;
  int (*DeviceGetName)(char* name, int bytes, int device) = nullptr;
  int (*DeviceGetAttribute)(int* value, int attribute, int device) = nullptr;
  int (*DeviceGetPCIBusId)(char* text, int bytes, int device) = nullptr;
  int (*DeviceGetUuid)(unsigned char* uuid, int device) = nullptr;  // [16]
  int (*DevicePrimaryCtxRetain)(void** context, int device) = nullptr;
  int (*DevicePrimaryCtxRelease)(int device) = nullptr;
  int (*CtxSetCurrent)(void* context) = nullptr;
  int (*CtxSynchronize)() = nullptr;
  int (*MemGetInfo)(size_t* free, size_t* total) = nullptr;
  int (*MemAlloc)(GpuAddress* address, size_t bytes) = nullptr;
  int (*MemFree)(GpuAddress address) = nullptr;
  int (*MemGetAllocationGranularity)(size_t* bytes, const GpuAllocationProperties* properties, int option) = nullptr;
  int (*MemCreate)(GpuAllocation* handle, size_t bytes, const GpuAllocationProperties* properties,
                   unsigned long long flags) = nullptr;
  int (*MemRelease)(GpuAllocation handle) = nullptr;
  int (*MemExportToShareableHandle)(void* shared, GpuAllocation handle, int type, unsigned long long flags) = nullptr;
  int (*MemImportFromShareableHandle)(GpuAllocation* handle, void* shared, int type) = nullptr;
  int (*MemAddressReserve)(GpuAddress* address, size_t bytes, size_t alignment, GpuAddress wanted,
                           unsigned long long flags) = nullptr;
  int (*MemAddressFree)(GpuAddress address, size_t bytes) = nullptr;
  int (*MemMap)(GpuAddress address, size_t bytes, size_t offset, GpuAllocation handle, unsigned long long flags) = nullptr;
  int (*MemUnmap)(GpuAddress address, size_t bytes) = nullptr;
  int (*MemSetAccess)(GpuAddress address, size_t bytes, const GpuAccess* access, size_t count) = nullptr;
  int (*MemcpyHtoD)(GpuAddress to, const void* from, size_t bytes) = nullptr;
  int (*MemcpyDtoH)(void* to, GpuAddress from, size_t bytes) = nullptr;
  int (*MemcpyDtoDAsync)(GpuAddress to, GpuAddress from, size_t bytes, void* stream) = nullptr;
  int (*MemsetD8Async)(GpuAddress to, unsigned char value, size_t count, void* stream) = nullptr;
  int (*MemsetD16Async)(GpuAddress to, unsigned short value, size_t count, void* stream) = nullptr;
  int (*ModuleLoadData)(void** module, const void* image) = nullptr;
  int (*ModuleGetFunction)(void** function, void* module, const char* name) = nullptr;
  int (*LaunchKernel)(void* function, unsigned grid_x, unsigned grid_y, unsigned grid_z, unsigned block_x,
                      unsigned block_y, unsigned block_z, unsigned shared_bytes, void* stream, void** arguments,
                      void** extra) = nullptr;
  int (*EventCreate)(void** event, unsigned flags) = nullptr;
  int (*EventRecord)(void* event, void* stream) = nullptr;
  int (*EventElapsedTime)(float* ms, void* begin, void* end) = nullptr;

  /// Opens the library (`path`, or the dialect's own name) and finds everything. False with the reason: no such library,
  /// or one that lacks a function. The library stays open for the life of the process.
  bool Load(const GpuDialect& dialect, const std::string& path, std::string* error);

  /// Where the loaded library lies.
  std::string path;
};

/// Maps an allocation into this process: at `wanted` when that is free, else elsewhere. 0 or the driver's error.
int MapGpuMemory(const GpuDriver& driver, int ordinal, GpuAllocation allocation, size_t bytes, GpuAddress wanted,
                 int access, GpuAddress* address);
void UnmapGpuMemory(const GpuDriver& driver, GpuAddress address, size_t bytes);

/// One GPU as the driver tells it without opening it.
struct GpuListing {
  std::string name;          // "NVIDIA H200"
  std::string architecture;  // "sm_90"
};
/// All visible GPUs, in the order of their index. False with the reason: no driver, or it does not start.
bool ListGpus(const GpuDialect& dialect, std::vector<GpuListing>* gpus, std::string* error);

/// A file of the installation that the running program belongs to: of "lib/x.so", "<prefix>/lib/x.so".
std::string InstalledPath(const std::string& name);

/// The toolkit's root folder ("/usr/local/cuda") as the environment tells it, or empty.
std::string ToolkitFolder(const GpuDialect& dialect);

/// The first of the libraries that can be found: as an absolute path in the toolkit, in one of `folders`, or by the bare
/// name through the loader. Empty when none can.
std::string FindGpuLibrary(const GpuDialect& dialect, const char* const* names, const std::vector<std::string>& folders);

/// "cudaErrorIllegalAddress" for 700: runtime and driver number their errors alike. Never null.
const char* GpuErrorName(const GpuDialect& dialect, int code);

}  // namespace hone::verifier
