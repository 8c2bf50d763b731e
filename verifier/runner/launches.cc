// Stands before CUDA's runtime in a native candidate's process on a GPU: counts kernel launches, and lets them do nothing where
// a checked call is repeated to see what the host alone would have done. Loaded before the runtime, so that artefacts find its
// functions first; each goes on to the runtime's own. In the candidate's address space: hearsay, like all that comes from there.
//
// The runtime's functions are declared here by their binary interface: dim3 is three unsigned numbers, a stream, a kernel and a
// graph are pointers (CUDA 12 and 13: cuda_runtime_api.h, crt/device_functions.h).

#include <dlfcn.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>

namespace {

struct Dim3 {
  unsigned x, y, z;
};

std::atomic<uint64_t> launches = 0;
std::atomic<bool> off = false;
std::atomic<void*> runtime = nullptr;

constexpr int kSuccess = 0;
constexpr int kMissing = 500;  // cudaErrorSymbolNotFound

/// The runtime's function, called unless launches are off.
template <class... Arguments>
int Launch(const char* name, std::atomic<void*>& known, Arguments... arguments) {
  launches.fetch_add(1, std::memory_order_relaxed);
  if (off.load(std::memory_order_relaxed)) return kSuccess;
  void* found = known.load(std::memory_order_acquire);
  if (found == nullptr) {
    found = dlsym(runtime.load(std::memory_order_acquire), name);
    if (found == nullptr) return kMissing;
    known.store(found, std::memory_order_release);
  }
  int (*function)(Arguments...) = nullptr;
  std::memcpy(&function, &found, sizeof function);
  return function(arguments...);
}

}  // namespace

#define HONE_LAUNCH(name)                                                                                                \
  int name(const void* kernel, Dim3 grid, Dim3 block, void** arguments, size_t shared_bytes, void* stream) {             \
    static std::atomic<void*> known = nullptr;                                                                           \
    return Launch(#name, known, kernel, grid, block, arguments, shared_bytes, stream);                                   \
  }

extern "C" {

HONE_LAUNCH(cudaLaunchKernel)
HONE_LAUNCH(cudaLaunchKernel_ptsz)
HONE_LAUNCH(__cudaLaunchKernel)
HONE_LAUNCH(__cudaLaunchKernel_ptsz)
HONE_LAUNCH(cudaLaunchCooperativeKernel)
HONE_LAUNCH(cudaLaunchCooperativeKernel_ptsz)

int cudaLaunchKernelExC(const void* configuration, const void* kernel, void** arguments) {
  static std::atomic<void*> known = nullptr;
  return Launch("cudaLaunchKernelExC", known, configuration, kernel, arguments);
}
int cudaLaunchKernelExC_ptsz(const void* configuration, const void* kernel, void** arguments) {
  static std::atomic<void*> known = nullptr;
  return Launch("cudaLaunchKernelExC_ptsz", known, configuration, kernel, arguments);
}
int cudaGraphLaunch(void* graph, void* stream) {
  static std::atomic<void*> known = nullptr;
  return Launch("cudaGraphLaunch", known, graph, stream);
}
int cudaGraphLaunch_ptsz(void* graph, void* stream) {
  static std::atomic<void*> known = nullptr;
  return Launch("cudaGraphLaunch_ptsz", known, graph, stream);
}

/// For the runner (gpu.cc).
uint64_t hone_launches_count() { return launches.load(std::memory_order_relaxed); }
void hone_launches_switch(int on) { off.store(on == 0, std::memory_order_relaxed); }
/// Finds the runtime. Whether it is there, and an artefact finds these functions before its own.
int hone_launches_start() {
  void* of_the_runtime = dlsym(RTLD_DEFAULT, "cudaFree");
  Dl_info library = {};
  if (of_the_runtime == nullptr || dladdr(of_the_runtime, &library) == 0) return 0;
  runtime = dlopen(library.dli_fname, RTLD_NOW | RTLD_NOLOAD);
  return runtime != nullptr && dlsym(RTLD_DEFAULT, "cudaLaunchKernel") == reinterpret_cast<void*>(&cudaLaunchKernel);
}

}  // extern "C"
