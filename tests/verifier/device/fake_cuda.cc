// A driver library whose "device memory" is the host's: what the device table and a runner do with a driver, tried where
// there is none. It runs no kernels, so that the table falls back on the host. $FAKE_CUDA_FAIL names a function and the
// code that it fails with, "cuMemCreate:2".

#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <map>
#include <mutex>
#include <sys/mman.h>
#include <unistd.h>

namespace {

std::mutex g_mutex;
std::map<unsigned long long, size_t> g_reserved;  // address -> bytes

int Failure(const char* function) {
  const char* wanted = std::getenv("FAKE_CUDA_FAIL");
  if (wanted == nullptr) return 0;
  const size_t length = std::strlen(function);
  if (std::strncmp(wanted, function, length) != 0 || wanted[length] != ':') return 0;
  return std::atoi(wanted + length + 1);
}

int64_t Now() {
  timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return int64_t{now.tv_sec} * 1'000'000'000 + now.tv_nsec;
}

void* Pointer(unsigned long long address) { return reinterpret_cast<void*>(address); }

}  // namespace

#define FAKE(name, ...)                          \
  int name(__VA_ARGS__) {                        \
    if (const int code = Failure(#name)) return code;

extern "C" {

FAKE(cuInit, unsigned) return 0; }
FAKE(cuDeviceGetCount, int* count) *count = 1; return 0; }
FAKE(cuDeviceGet, int* device, int ordinal) *device = ordinal; return ordinal == 0 ? 0 : 101; }
FAKE(cuDeviceGetName, char* name, int bytes, int) std::strncpy(name, "fake GPU", static_cast<size_t>(bytes)); return 0; }
FAKE(cuDeviceGetAttribute, int* value, int attribute, int)
  *value = attribute == 75 ? 1 :  // an architecture that no run-time compiler knows: the host compares
                               attribute == 38 ? 1 << 20 : attribute == 13 ? 1'000'000 : 0;
  return 0;
}
FAKE(cuDeviceGetPCIBusId, char* text, int bytes, int) std::strncpy(text, "0000:00:00.0", static_cast<size_t>(bytes)); return 0; }
FAKE(cuDeviceGetUuid, unsigned char* uuid, int) for (int i = 0; i < 16; ++i) uuid[i] = static_cast<unsigned char>(i); return 0; }
FAKE(cuDevicePrimaryCtxRetain, void** context, int) *context = &g_mutex; return 0; }
FAKE(cuDevicePrimaryCtxRelease, int) return 0; }
FAKE(cuCtxSetCurrent, void*) return 0; }
FAKE(cuCtxSynchronize) return 0; }
FAKE(cuMemGetInfo, size_t* free, size_t* total) *free = *total = size_t{1} << 30; return 0; }
FAKE(cuMemAlloc, unsigned long long* address, size_t bytes)
  *address = reinterpret_cast<unsigned long long>(std::malloc(bytes));
  return *address != 0 ? 0 : 2;
}
FAKE(cuMemFree, unsigned long long address) std::free(Pointer(address)); return 0; }
FAKE(cuMemGetAllocationGranularity, size_t* bytes, const void*, int) *bytes = 2 << 20; return 0; }
FAKE(cuMemCreate, unsigned long long* handle, size_t bytes, const void*, unsigned long long)
  const int fd = memfd_create("fake", MFD_CLOEXEC);
  *handle = static_cast<unsigned long long>(fd);
  return fd >= 0 && ftruncate(fd, static_cast<off_t>(bytes)) == 0 ? 0 : 2;
}
FAKE(cuMemRelease, unsigned long long handle) close(static_cast<int>(handle)); return 0; }
FAKE(cuMemExportToShareableHandle, void* shared, unsigned long long handle, int, unsigned long long)
  const int fd = dup(static_cast<int>(handle));
  std::memcpy(shared, &fd, sizeof fd);
  return fd >= 0 ? 0 : 999;
}
FAKE(cuMemImportFromShareableHandle, unsigned long long* handle, void* shared, int)
  *handle = static_cast<unsigned long long>(dup(static_cast<int>(reinterpret_cast<intptr_t>(shared))));
  return 0;
}
FAKE(cuMemAddressReserve, unsigned long long* address, size_t bytes, size_t, unsigned long long wanted, unsigned long long)
  void* got = mmap(Pointer(wanted), bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (got == MAP_FAILED) return 2;
  *address = reinterpret_cast<unsigned long long>(got);
  return 0;
}
FAKE(cuMemAddressFree, unsigned long long address, size_t bytes) munmap(Pointer(address), bytes); return 0; }
FAKE(cuMemMap, unsigned long long address, size_t bytes, size_t offset, unsigned long long handle, unsigned long long)
  if (offset != 0) return 1;  // as the real one
  void* got = mmap(Pointer(address), bytes, PROT_NONE, MAP_SHARED | MAP_FIXED, static_cast<int>(handle), 0);
  const std::lock_guard<std::mutex> lock(g_mutex);
  g_reserved[address] = bytes;
  return got == MAP_FAILED ? 1 : 0;
}
FAKE(cuMemUnmap, unsigned long long address, size_t bytes)
  mmap(Pointer(address), bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED | MAP_NORESERVE, -1, 0);
  return 0;
}
FAKE(cuMemSetAccess, unsigned long long address, size_t bytes, const int* access, size_t)
  return mprotect(Pointer(address), bytes, access[2] == 3 ? PROT_READ | PROT_WRITE : PROT_READ) == 0 ? 0 : 1;
}
FAKE(cuMemcpyHtoD, unsigned long long to, const void* from, size_t bytes) std::memcpy(Pointer(to), from, bytes); return 0; }
FAKE(cuMemcpyDtoH, void* to, unsigned long long from, size_t bytes) std::memcpy(to, Pointer(from), bytes); return 0; }
FAKE(cuMemcpyDtoDAsync, unsigned long long to, unsigned long long from, size_t bytes, void*)
  std::memcpy(Pointer(to), Pointer(from), bytes);
  return 0;
}
FAKE(cuMemsetD8Async, unsigned long long to, unsigned char value, size_t count, void*) std::memset(Pointer(to), value, count); return 0; }
FAKE(cuMemsetD16Async, unsigned long long to, unsigned short value, size_t count, void*)
  for (size_t i = 0; i < count; ++i) std::memcpy(static_cast<char*>(Pointer(to)) + 2 * i, &value, 2);
  return 0;
}
FAKE(cuModuleLoadData, void**, const void*) return 801; }
FAKE(cuModuleGetFunction, void**, void*, const char*) return 500; }
FAKE(cuLaunchKernel, void*, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, void*, void**, void**) return 801; }
FAKE(cuEventCreate, void** event, unsigned) *event = new int64_t(0); return 0; }
FAKE(cuEventRecord, void* event, void*) *static_cast<int64_t*>(event) = Now(); return 0; }
FAKE(cuEventElapsedTime, float* ms, void* begin, void* end)
  *ms = static_cast<float>(1e-6 * static_cast<double>(*static_cast<int64_t*>(end) - *static_cast<int64_t*>(begin)));
  return 0;
}

}  // extern "C"
