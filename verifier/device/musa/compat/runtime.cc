// libmusart of the compatibility toolchain: each function is CUDA's of the same name, in whichever CUDA runtime the
// process has loaded before: NVIDIA's libcudart, or the CPU emulation's (verifier/device/cpu). Types are those of the C
// ABI: handles are pointers, enumerators are int.

#include <cstddef>

#include "verifier/device/musa/compat/forward.h"

namespace {

struct Dim3 {
  unsigned x, y, z;
};

void* Find(const char* name) { return dlsym(RTLD_DEFAULT, name); }

/// CUDA 12 keeps an older layout of cudaDeviceProp under the plain name.
void* FindNewest(const char* name) {
  void* newest = dlsym(RTLD_DEFAULT, "cudaGetDeviceProperties_v2");
  return newest != nullptr ? newest : Find(name);
}

}  // namespace

#define FORWARD(name, parameters, arguments) HONE_FORWARD_AS(Find, int, musa##name, "cuda" #name, parameters, arguments)
#define FORWARD_TEXT(name, parameters, arguments) \
  HONE_FORWARD_AS(Find, const char*, musa##name, "cuda" #name, parameters, arguments)

// Memory.
FORWARD(Malloc, (void** p, size_t n), (p, n))
FORWARD(MallocAsync, (void** p, size_t n, void* s), (p, n, s))
FORWARD(MallocManaged, (void** p, size_t n, unsigned f), (p, n, f))
FORWARD(MallocHost, (void** p, size_t n), (p, n))
FORWARD(HostAlloc, (void** p, size_t n, unsigned f), (p, n, f))
FORWARD(Free, (void* p), (p))
FORWARD(FreeAsync, (void* p, void* s), (p, s))
FORWARD(FreeHost, (void* p), (p))
FORWARD(Memcpy, (void* to, const void* from, size_t n, int kind), (to, from, n, kind))
FORWARD(MemcpyAsync, (void* to, const void* from, size_t n, int kind, void* s), (to, from, n, kind, s))
FORWARD(Memcpy2D, (void* to, size_t to_pitch, const void* from, size_t pitch, size_t width, size_t height, int kind),
        (to, to_pitch, from, pitch, width, height, kind))
FORWARD(Memset, (void* to, int value, size_t n), (to, value, n))
FORWARD(MemsetAsync, (void* to, int value, size_t n, void* s), (to, value, n, s))
FORWARD(MemGetInfo, (size_t * free, size_t* total), (free, total))

// Streams and events.
FORWARD(StreamCreate, (void** s), (s))
FORWARD(StreamCreateWithFlags, (void** s, unsigned flags), (s, flags))
FORWARD(StreamDestroy, (void* s), (s))
FORWARD(StreamSynchronize, (void* s), (s))
FORWARD(StreamQuery, (void* s), (s))
FORWARD(StreamWaitEvent, (void* s, void* e, unsigned flags), (s, e, flags))
FORWARD(EventCreate, (void** e), (e))
FORWARD(EventCreateWithFlags, (void** e, unsigned flags), (e, flags))
FORWARD(EventDestroy, (void* e), (e))
FORWARD(EventRecord, (void* e, void* s), (e, s))
FORWARD(EventSynchronize, (void* e), (e))
FORWARD(EventQuery, (void* e), (e))
FORWARD(EventElapsedTime, (float* ms, void* begin, void* end), (ms, begin, end))

// Devices and launches.
FORWARD(DeviceSynchronize, (), ())
FORWARD(GetDevice, (int* device), (device))
FORWARD(SetDevice, (int device), (device))
FORWARD(GetDeviceCount, (int* count), (count))
HONE_FORWARD_AS(FindNewest, int, musaGetDeviceProperties, "cudaGetDeviceProperties", (void* properties, int device),
                (properties, device))
FORWARD(DeviceGetAttribute, (int* value, int attribute, int device), (value, attribute, device))
FORWARD(LaunchKernel, (const void* function, Dim3 grid, Dim3 block, void** arguments, size_t shared_bytes, void* s),
        (function, grid, block, arguments, shared_bytes, s))
FORWARD(GetLastError, (), ())
FORWARD(PeekAtLastError, (), ())
FORWARD_TEXT(GetErrorString, (int error), (error))
FORWARD_TEXT(GetErrorName, (int error), (error))
