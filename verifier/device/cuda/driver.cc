#include "verifier/device/cuda/driver.h"

#include <cstdlib>
#include <cstring>
#include <dlfcn.h>
#include <fstream>
#include <map>
#include <mutex>
#include <unistd.h>
#include <utility>

namespace hone::verifier {
namespace {

/// The kernel's folder of a GPU tells the number of its node.
std::vector<std::string> CudaNodes(const std::string& bus_address, int) {
  std::vector<std::string> nodes = {"/dev/nvidiactl", "/dev/nvidia-uvm"};
  std::ifstream file("/proc/driver/nvidia/gpus/" + bus_address + "/information");
  std::string line;
  while (std::getline(file, line)) {
    const size_t at = line.find("Device Minor:");
    if (at == std::string::npos) continue;
    const size_t digits = line.find_first_of("0123456789", at);
    if (digits != std::string::npos) nodes.insert(nodes.begin(), "/dev/nvidia" + line.substr(digits));
  }
  return nodes;
}

}  // namespace

const GpuDialect kCudaDialect = {
    .name = "cuda",
    .driver_library = "libcuda.so.1",
    .driver_prefix = "cu",
    .runtime_libraries = {"libcudart.so.13", "libcudart.so.12", nullptr, nullptr},
    .runtime_prefix = "cuda",
    .compiler_libraries = {"libnvrtc.so.13", "libnvrtc.so.12", nullptr, nullptr},
    .compiler_prefix = "nvrtc",
    .binary_name = "CUBIN",
    .architecture_prefix = "sm_",
    .clock_kernel = R"(
extern "C" __global__ void hone_clock(unsigned long long nanoseconds, unsigned long long* out) {
  unsigned long long begin, now;
  asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(begin));
  do {
    asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(now));
  } while (now == begin);  // the timer moves in steps
  begin = now;
  const long long first = clock64();
  do {
    asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(now));
  } while (now - begin < nanoseconds);
  out[0] = (unsigned long long)(clock64() - first);
  out[1] = now - begin;
}
)",
    .toolkit_variables = {"CUDA_HOME", "CUDA_PATH", nullptr},
    .toolkit_folder = "/usr/local/cuda",
    .visible_devices = "CUDA_VISIBLE_DEVICES",
    .uuid_prefix = "GPU-",
    .nodes = CudaNodes,
};

bool GpuDriver::Load(const GpuDialect& dialect, const std::string& wanted, std::string* error) {
  const std::string shipped = std::strchr(dialect.driver_library, '/') ? InstalledPath(dialect.driver_library) : "";
  const char* name = !wanted.empty() ? wanted.c_str() : !shipped.empty() ? shipped.c_str() : dialect.driver_library;
  void* library = dlopen(name, RTLD_NOW | RTLD_GLOBAL);
  if (library == nullptr) {
    const char* why = dlerror();
    *error = why != nullptr ? why : name;
    return false;
  }
  // The newest layout of a function carries a suffix where an old one keeps the plain name.
  const auto find = [&](const char* function, const char* suffix, auto& pointer) {
    const std::string plain = std::string(dialect.driver_prefix) + function;
    void* found = dlsym(library, (plain + suffix).c_str());
    if (found == nullptr && suffix[0] != 0) found = dlsym(library, plain.c_str());
    if (found == nullptr && error->empty()) *error = std::string(name) + " has no " + plain;
    std::memcpy(&pointer, &found, sizeof found);
  };
  error->clear();
  find("Init", "", Init);
  find("DeviceGet", "", DeviceGet);
  find("DeviceGetCount", "", DeviceGetCount);
  find("DeviceGetName", "", DeviceGetName);
  find("DeviceGetAttribute", "", DeviceGetAttribute);
  find("DeviceGetPCIBusId", "", DeviceGetPCIBusId);
  find("DeviceGetUuid", "_v2", DeviceGetUuid);
  find("DevicePrimaryCtxRetain", "", DevicePrimaryCtxRetain);
  find("DevicePrimaryCtxRelease", "_v2", DevicePrimaryCtxRelease);
  find("CtxSetCurrent", "", CtxSetCurrent);
  find("CtxSynchronize", "", CtxSynchronize);
  find("MemGetInfo", "_v2", MemGetInfo);
  find("MemAlloc", "_v2", MemAlloc);
  find("MemFree", "_v2", MemFree);
  find("MemGetAllocationGranularity", "", MemGetAllocationGranularity);
  find("MemCreate", "", MemCreate);
  find("MemRelease", "", MemRelease);
  find("MemExportToShareableHandle", "", MemExportToShareableHandle);
  find("MemImportFromShareableHandle", "", MemImportFromShareableHandle);
  find("MemAddressReserve", "", MemAddressReserve);
  find("MemAddressFree", "", MemAddressFree);
  find("MemMap", "", MemMap);
  find("MemUnmap", "", MemUnmap);
  find("MemSetAccess", "", MemSetAccess);
  find("MemcpyHtoD", "_v2", MemcpyHtoD);
  find("MemcpyDtoH", "_v2", MemcpyDtoH);
  find("MemcpyDtoDAsync", "_v2", MemcpyDtoDAsync);
  find("MemsetD8Async", "", MemsetD8Async);
  find("MemsetD16Async", "", MemsetD16Async);
  find("ModuleLoadData", "", ModuleLoadData);
  find("ModuleGetFunction", "", ModuleGetFunction);
  find("LaunchKernel", "", LaunchKernel);
  find("EventCreate", "", EventCreate);
  find("EventRecord", "", EventRecord);
  find("EventElapsedTime", "", EventElapsedTime);
  if (!error->empty()) return false;
  Dl_info info;
  path = dladdr(reinterpret_cast<void*>(Init), &info) != 0 && info.dli_fname != nullptr ? info.dli_fname : name;
  return true;
}

int MapGpuMemory(const GpuDriver& driver, int ordinal, GpuAllocation allocation, size_t bytes, GpuAddress wanted,
                 int access, GpuAddress* address) {
  constexpr size_t kAlignment = 2 << 20;
  int error = driver.MemAddressReserve(address, bytes, kAlignment, wanted, 0);
  if (error != 0 && wanted != 0) error = driver.MemAddressReserve(address, bytes, kAlignment, 0, 0);
  if (error != 0) return error;
  error = driver.MemMap(*address, bytes, 0, allocation, 0);
  if (error == 0) {
    GpuAccess how;
    how.location.id = ordinal;
    how.flags = access;
    error = driver.MemSetAccess(*address, bytes, &how, 1);
    if (error == 0) return 0;
    driver.MemUnmap(*address, bytes);
  }
  driver.MemAddressFree(*address, bytes);
  return error;
}

void UnmapGpuMemory(const GpuDriver& driver, GpuAddress address, size_t bytes) {
  driver.MemUnmap(address, bytes);
  driver.MemAddressFree(address, bytes);
}

bool ListGpus(const GpuDialect& dialect, std::vector<GpuListing>* gpus, std::string* error) {
  GpuDriver driver;
  if (!driver.Load(dialect, "", error)) return false;
  int count = 0;
  int code = driver.Init(0);
  if (code == 0) code = driver.DeviceGetCount(&count);
  for (int i = 0; i < count && code == 0; ++i) {
    int device = 0, major = 0, minor = 0;
    char name[256] = {};
    code = driver.DeviceGet(&device, i);
    if (code == 0) code = driver.DeviceGetName(name, sizeof name, device);
    if (code == 0) code = driver.DeviceGetAttribute(&major, static_cast<int>(GpuAttribute::kMajor), device);
    if (code == 0) code = driver.DeviceGetAttribute(&minor, static_cast<int>(GpuAttribute::kMinor), device);
    if (code == 0) gpus->push_back({name, dialect.architecture_prefix + std::to_string(major) + std::to_string(minor)});
  }
  if (code == 0) return true;
  *error = GpuErrorName(dialect, code);
  return false;
}

std::string InstalledPath(const std::string& name) {
  char program[4096];
  const ssize_t length = readlink("/proc/self/exe", program, sizeof program);
  std::string folder(program, length > 0 ? static_cast<size_t>(length) : 0);
  for (int i = 0; i < 2; ++i) folder = folder.substr(0, folder.rfind('/'));  // <prefix>/bin/program
  return folder + "/" + name;
}

std::string ToolkitFolder(const GpuDialect& dialect) {
  for (const char* const* variable = dialect.toolkit_variables; *variable != nullptr; ++variable) {
    const char* value = std::getenv(*variable);
    if (value != nullptr && value[0] != 0) return value;
  }
  return access(dialect.toolkit_folder, R_OK) == 0 ? dialect.toolkit_folder : "";
}

std::string FindGpuLibrary(const GpuDialect& dialect, const char* const* names,
                           const std::vector<std::string>& folders) {
  std::vector<std::string> places;
  if (const std::string root = ToolkitFolder(dialect); !root.empty()) {
    places.push_back(root + "/lib64");
    places.push_back(root + "/lib");
  }
  places.insert(places.end(), folders.begin(), folders.end());
  for (; *names != nullptr; ++names) {
    for (const std::string& place : places) {
      const std::string path = place + "/" + *names;
      if (access(path.c_str(), R_OK) == 0) return path;
    }
    if (void* library = dlopen(*names, RTLD_LAZY | RTLD_LOCAL)) {
      dlclose(library);
      return *names;
    }
  }
  return "";
}

namespace {

/// cudaError and CUresult, without the prefix.
constexpr std::pair<int, const char*> kErrors[] = {
    {0, "Success"},
    {1, "ErrorInvalidValue"},
    {2, "ErrorMemoryAllocation"},
    {3, "ErrorInitializationError"},
    {4, "ErrorCudartUnloading"},
    {9, "ErrorInvalidConfiguration"},
    {11, "ErrorInvalidValue"},
    {12, "ErrorInvalidPitchValue"},
    {13, "ErrorInvalidSymbol"},
    {17, "ErrorInvalidDevicePointer"},
    {18, "ErrorInvalidTexture"},
    {20, "ErrorInvalidChannelDescriptor"},
    {21, "ErrorInvalidMemcpyDirection"},
    {34, "ErrorStubLibrary"},
    {35, "ErrorInsufficientDriver"},
    {46, "ErrorDevicesUnavailable"},
    {52, "ErrorMissingConfiguration"},
    {53, "ErrorPriorLaunchFailure"},
    {65, "ErrorLaunchMaxDepthExceeded"},
    {68, "ErrorLaunchFileScopedTex"},
    {98, "ErrorInvalidDeviceFunction"},
    {100, "ErrorNoDevice"},
    {101, "ErrorInvalidDevice"},
    {200, "ErrorInvalidKernelImage"},
    {201, "ErrorDeviceUninitialized"},
    {205, "ErrorMapBufferObjectFailed"},
    {208, "ErrorAlreadyMapped"},
    {209, "ErrorNoKernelImageForDevice"},
    {214, "ErrorECCUncorrectable"},
    {218, "ErrorInvalidPtx"},
    {222, "ErrorUnsupportedPtxVersion"},
    {300, "ErrorInvalidSource"},
    {301, "ErrorFileNotFound"},
    {302, "ErrorSharedObjectSymbolNotFound"},
    {303, "ErrorSharedObjectInitFailed"},
    {304, "ErrorOperatingSystem"},
    {400, "ErrorInvalidResourceHandle"},
    {401, "ErrorIllegalState"},
    {500, "ErrorSymbolNotFound"},
    {600, "ErrorNotReady"},
    {700, "ErrorIllegalAddress"},
    {701, "ErrorLaunchOutOfResources"},
    {702, "ErrorLaunchTimeout"},
    {709, "ErrorContextIsDestroyed"},
    {710, "ErrorAssert"},
    {711, "ErrorTooManyPeers"},
    {714, "ErrorHardwareStackError"},
    {715, "ErrorIllegalInstruction"},
    {716, "ErrorMisalignedAddress"},
    {717, "ErrorInvalidAddressSpace"},
    {718, "ErrorInvalidPc"},
    {719, "ErrorLaunchFailure"},
    {720, "ErrorCooperativeLaunchTooLarge"},
    {800, "ErrorNotPermitted"},
    {801, "ErrorNotSupported"},
    {802, "ErrorSystemNotReady"},
    {803, "ErrorSystemDriverMismatch"},
    {900, "ErrorStreamCaptureUnsupported"},
    {901, "ErrorStreamCaptureInvalidated"},
    {999, "ErrorUnknown"},
};

}  // namespace

const char* GpuErrorName(const GpuDialect& dialect, int code) {
  static std::mutex mutex;
  static auto* const names = new std::map<std::pair<const GpuDialect*, int>, std::string>;
  const std::lock_guard<std::mutex> lock(mutex);
  std::string& name = (*names)[{&dialect, code}];
  if (name.empty()) {
    name = std::string(dialect.runtime_prefix) + "Error" + std::to_string(code);
    for (const auto& [number, text] : kErrors) {
      if (number == code) name = std::string(dialect.runtime_prefix) + text;
    }
  }
  return name.c_str();
}

}  // namespace hone::verifier
