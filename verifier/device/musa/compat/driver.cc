// libmusa of the compatibility toolchain: the part of MUSA's driver interface that hone uses
// (verifier/device/cuda/driver.h), handed to CUDA's driver. $HONE_MUSA_COMPAT_DRIVER names its library; unset:
// libcuda.so.1. The newest layout of a function carries a suffix in CUDA's library; MUSA has one layout under the plain
// name.

#include <cstddef>
#include <cstdlib>
#include <string>

#include "verifier/device/musa/compat/forward.h"
#include "verifier/device/musa/dialect.h"

namespace {

void* Library() {
  static void* const library = [] {
    const char* named = std::getenv(hone::verifier::kCompatDriverVariable);
    return dlopen(named != nullptr ? named : "libcuda.so.1", RTLD_NOW | RTLD_GLOBAL);
  }();
  return library;
}

void* Find(const char* name) {
  if (Library() == nullptr) return nullptr;
  void* newest = dlsym(Library(), (std::string(name) + "_v2").c_str());
  return newest != nullptr ? newest : dlsym(Library(), name);
}

/// The functions of one layout.
void* FindPlain(const char* name) { return Library() != nullptr ? dlsym(Library(), name) : nullptr; }

using Address = unsigned long long;
using Flags = unsigned long long;

}  // namespace

#define NEWEST(name, parameters, arguments) HONE_FORWARD_AS(Find, int, mu##name, "cu" #name, parameters, arguments)
#define PLAIN(name, parameters, arguments) HONE_FORWARD_AS(FindPlain, int, mu##name, "cu" #name, parameters, arguments)

PLAIN(DeviceGet, (int* device, int ordinal), (device, ordinal))
PLAIN(DeviceGetCount, (int* count), (count))
PLAIN(DeviceGetName, (char* name, int bytes, int device), (name, bytes, device))
PLAIN(DeviceGetAttribute, (int* value, int attribute, int device), (value, attribute, device))
PLAIN(DeviceGetPCIBusId, (char* text, int bytes, int device), (text, bytes, device))
NEWEST(DeviceGetUuid, (unsigned char* uuid, int device), (uuid, device))
PLAIN(DevicePrimaryCtxRetain, (void** context, int device), (context, device))
NEWEST(DevicePrimaryCtxRelease, (int device), (device))
PLAIN(CtxSetCurrent, (void* context), (context))
PLAIN(CtxSynchronize, (), ())
NEWEST(MemGetInfo, (size_t * free, size_t* total), (free, total))
NEWEST(MemAlloc, (Address * address, size_t bytes), (address, bytes))
NEWEST(MemFree, (Address address), (address))
PLAIN(MemGetAllocationGranularity, (size_t * bytes, const void* properties, int option), (bytes, properties, option))
PLAIN(MemCreate, (Address * handle, size_t bytes, const void* properties, Flags flags),
      (handle, bytes, properties, flags))
PLAIN(MemRelease, (Address handle), (handle))
PLAIN(MemExportToShareableHandle, (void* shared, Address handle, int type, Flags flags), (shared, handle, type, flags))
PLAIN(MemImportFromShareableHandle, (Address * handle, void* shared, int type), (handle, shared, type))
PLAIN(MemAddressReserve, (Address * address, size_t bytes, size_t alignment, Address wanted, Flags flags),
      (address, bytes, alignment, wanted, flags))
PLAIN(MemAddressFree, (Address address, size_t bytes), (address, bytes))
PLAIN(MemMap, (Address address, size_t bytes, size_t offset, Address handle, Flags flags),
      (address, bytes, offset, handle, flags))
PLAIN(MemUnmap, (Address address, size_t bytes), (address, bytes))
PLAIN(MemSetAccess, (Address address, size_t bytes, const void* access, size_t count), (address, bytes, access, count))
NEWEST(MemcpyHtoD, (Address to, const void* from, size_t bytes), (to, from, bytes))
NEWEST(MemcpyDtoH, (void* to, Address from, size_t bytes), (to, from, bytes))
NEWEST(MemcpyDtoDAsync, (Address to, Address from, size_t bytes, void* stream), (to, from, bytes, stream))
PLAIN(MemsetD8Async, (Address to, unsigned char value, size_t count, void* stream), (to, value, count, stream))
PLAIN(MemsetD16Async, (Address to, unsigned short value, size_t count, void* stream), (to, value, count, stream))
PLAIN(ModuleLoadData, (void** module, const void* image), (module, image))
PLAIN(ModuleGetFunction, (void** function, void* module, const char* name), (function, module, name))
PLAIN(LaunchKernel,
      (void* function, unsigned grid_x, unsigned grid_y, unsigned grid_z, unsigned block_x, unsigned block_y,
       unsigned block_z, unsigned shared_bytes, void* stream, void** arguments, void** extra),
      (function, grid_x, grid_y, grid_z, block_x, block_y, block_z, shared_bytes, stream, arguments, extra))
PLAIN(EventCreate, (void** event, unsigned flags), (event, flags))
PLAIN(EventRecord, (void* event, void* stream), (event, stream))
PLAIN(EventElapsedTime, (float* ms, void* begin, void* end), (ms, begin, end))

/// The first call of all: a driver that is not there is an error like any other.
HONE_EXPORT int muInit(unsigned flags) {
  constexpr int kNoDriver = 304;
  using Function = int (*)(unsigned);
  const auto function = reinterpret_cast<Function>(FindPlain("cuInit"));
  return function != nullptr ? function(flags) : kNoDriver;
}
