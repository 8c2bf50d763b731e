// A GPU's buffers, clock and comparison through the driver API (verifier/device/cuda/driver.h). The table is made once for
// each dialect.

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <ctime>
#include <dlfcn.h>
#include <memory>
#include <string>
#include <sys/stat.h>
#include <unistd.h>
#include <vector>

#include "verifier/device/cuda/driver.h"
#include "verifier/device/cuda/kernels.h"
#include "verifier/device/device.h"
#include "verifier/device/musa/dialect.h"

namespace hone::verifier {
namespace {

constexpr int kNoDriver = 304;      // the operating system's fault: also what a missing library becomes
constexpr int kWrongResult = 999;
constexpr int kInvalidValue = 1;
constexpr unsigned kThreads = 256;
constexpr unsigned kMaxBlocks = 4096;
constexpr int kMaxItems = 65535;    // of a grid's second dimension

/// The run-time compiler: the few functions that are needed, called once.
struct RuntimeCompiler {
  int (*CreateProgram)(void** program, const char* source, const char* name, int headers, const char* const* texts,
                       const char* const* names) = nullptr;
  int (*CompileProgram)(void* program, int options, const char* const* values) = nullptr;
  int (*GetBinarySize)(void* program, size_t* bytes) = nullptr;
  int (*GetBinary)(void* program, char* binary) = nullptr;
  int (*DestroyProgram)(void** program) = nullptr;

  bool Load(const GpuDialect& dialect) {
    const std::string path = FindGpuLibrary(dialect, dialect.compiler_libraries, {});
    void* library = path.empty() ? nullptr : dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (library == nullptr) return false;
    const auto find = [&](const std::string& name, auto& pointer) {
      void* found = dlsym(library, (dialect.compiler_prefix + name).c_str());
      std::memcpy(&pointer, &found, sizeof found);
      return found != nullptr;
    };
    const std::string binary = std::string("Get") + dialect.binary_name;
    return find("CreateProgram", CreateProgram) && find("CompileProgram", CompileProgram) &&
           find(binary + "Size", GetBinarySize) && find(binary, GetBinary) && find("DestroyProgram", DestroyProgram);
  }

  /// Empty: it does not compile.
  std::vector<char> Compile(const std::string& source, const std::string& architecture) const {
    void* program = nullptr;
    std::vector<char> binary;
    if (CreateProgram(&program, source.c_str(), "judge.cu", 0, nullptr, nullptr) != 0) return binary;
    const std::string option = "--gpu-architecture=" + architecture;
    const char* options[] = {option.c_str()};
    size_t bytes = 0;
    if (CompileProgram(program, 1, options) == 0 && GetBinarySize(program, &bytes) == 0 && bytes > 0) {
      binary.resize(bytes);
      if (GetBinary(program, binary.data()) != 0) binary.clear();
    }
    DestroyProgram(&program);
    return binary;
  }
};

struct GpuDevice {
  const GpuDialect* dialect = nullptr;
  GpuDriver driver;
  int device = 0;
  int ordinal = 0;
  void* context = nullptr;
  size_t granularity = 2 << 20;
  int64_t cache_bytes = 0;

  // Null where there is no run-time compiler: the host compares instead.
  void* compare = nullptr;
  void* count_changed = nullptr;
  void* copy = nullptr;
  void* clock = nullptr;

  GpuAddress scratch = 0;  // twice the cache, for eviction and the probe
  size_t scratch_bytes = 0;
  GpuAddress items = 0;    // what a kernel works on, uploaded
  size_t items_bytes = 0;
  GpuAddress results = 0;
  size_t results_bytes = 0;

  int Grow(GpuAddress* address, size_t* have, size_t want) {
    if (*have >= want) return 0;
    if (*address != 0) driver.MemFree(*address);
    *address = 0;
    *have = 0;
    const size_t bytes = std::max<size_t>(want, 64 << 10);
    const int error = driver.MemAlloc(address, bytes);
    if (error == 0) *have = bytes;
    return error;
  }
};

GpuDevice& Of(void* device) { return *static_cast<GpuDevice*>(device); }
GpuAddress Address(const void* pointer) { return reinterpret_cast<GpuAddress>(pointer); }

std::string BusAddress(const GpuDevice& gpu) {
  char bus[64] = {};
  if (gpu.driver.DeviceGetPCIBusId(bus, sizeof bus, gpu.device) != 0) return "";
  std::string path = bus;  // "0000:3B:00.0"; the kernel's folders are in lower case
  std::transform(path.begin(), path.end(), path.begin(), [](unsigned char c) { return std::tolower(c); });
  return path;
}

std::string UuidText(const char* prefix, const unsigned char (&uuid)[16]) {
  std::string text = prefix;
  for (int i = 0; i < 16; ++i) {
    char digits[3];
    std::snprintf(digits, sizeof digits, "%02x", uuid[i]);
    text += digits;
    if (i == 3 || i == 5 || i == 7 || i == 9) text += '-';
  }
  return text;
}

std::string Architecture(const GpuDevice& gpu) {
  int major = 0, minor = 0;
  gpu.driver.DeviceGetAttribute(&major, static_cast<int>(GpuAttribute::kMajor), gpu.device);
  gpu.driver.DeviceGetAttribute(&minor, static_cast<int>(GpuAttribute::kMinor), gpu.device);
  return gpu.dialect->architecture_prefix + std::to_string(major) + std::to_string(minor);
}

/// The judge's kernels, where there is something to compile them with.
void LoadKernels(GpuDevice& gpu) {
  RuntimeCompiler compiler;
  if (!compiler.Load(*gpu.dialect)) return;
  std::string source = kJudgeKernels;
  if (gpu.dialect->clock_kernel != nullptr) source += gpu.dialect->clock_kernel;
  const std::vector<char> binary = compiler.Compile(source, Architecture(gpu));
  void* module = nullptr;
  if (binary.empty() || gpu.driver.ModuleLoadData(&module, binary.data()) != 0) return;
  const auto find = [&](const char* name, void** function) {
    if (gpu.driver.ModuleGetFunction(function, module, name) != 0) *function = nullptr;
  };
  find("hone_compare", &gpu.compare);
  find("hone_count_changed", &gpu.count_changed);
  find("hone_copy", &gpu.copy);
  if (gpu.dialect->clock_kernel != nullptr) find("hone_clock", &gpu.clock);
}

int OpenDevice(const GpuDialect& dialect, int index, void** result) {
  auto gpu = std::make_unique<GpuDevice>();
  gpu->dialect = &dialect;
  gpu->ordinal = index;
  std::string error;
  if (!gpu->driver.Load(dialect, "", &error)) return kNoDriver;
  GpuDriver& driver = gpu->driver;
  int code = driver.Init(0);
  if (code == 0) code = driver.DeviceGet(&gpu->device, index);
  if (code == 0) code = driver.DevicePrimaryCtxRetain(&gpu->context, gpu->device);
  if (code == 0) code = driver.CtxSetCurrent(gpu->context);
  if (code != 0) return code;
  GpuAllocationProperties properties;
  properties.location.id = index;
  driver.MemGetAllocationGranularity(&gpu->granularity, &properties, 0);
  int cache = 0;
  driver.DeviceGetAttribute(&cache, static_cast<int>(GpuAttribute::kCacheBytes), gpu->device);
  gpu->cache_bytes = cache > 0 ? cache : 64 << 20;
  code = gpu->Grow(&gpu->scratch, &gpu->scratch_bytes, static_cast<size_t>(2 * gpu->cache_bytes));
  if (code == 0) code = gpu->Grow(&gpu->results, &gpu->results_bytes, 64 << 10);
  if (code != 0) return code;
  LoadKernels(*gpu);
  *result = gpu.release();
  return 0;
}

void Close(void* device) {
  GpuDevice& gpu = Of(device);
  for (const GpuAddress address : {gpu.scratch, gpu.items, gpu.results}) {
    if (address != 0) gpu.driver.MemFree(address);
  }
  gpu.driver.DevicePrimaryCtxRelease(gpu.device);
  delete &gpu;
}

int Properties(void* device, DeviceProperties* properties) {
  GpuDevice& gpu = Of(device);
  *properties = {};
  char name[256] = {};
  if (const int error = gpu.driver.DeviceGetName(name, sizeof name, gpu.device); error != 0) return error;
  properties->name = name;
  properties->cache_bytes = gpu.cache_bytes;
  int khz = 0;
  gpu.driver.DeviceGetAttribute(&khz, static_cast<int>(GpuAttribute::kClockKhz), gpu.device);
  properties->clock_mhz = khz / 1000.0;
  size_t free = 0, total = 0;
  if (const int error = gpu.driver.MemGetInfo(&free, &total); error != 0) return error;
  properties->memory_bytes = static_cast<int64_t>(total);
  properties->map_unit = gpu.granularity;
  properties->maps_parts = false;
  properties->architecture = Architecture(gpu);
  unsigned char uuid[16] = {};
  const char* prefix = gpu.dialect->uuid_prefix;
  if (prefix == nullptr) {
    properties->unique_id = std::to_string(gpu.ordinal);
  } else if (gpu.driver.DeviceGetUuid(uuid, gpu.device) == 0) {
    properties->unique_id = UuidText(prefix, uuid);
  }
  properties->driver_library = gpu.driver.path;
  for (const std::string& node : gpu.dialect->nodes(BusAddress(gpu), gpu.ordinal)) {
    struct stat found;
    if (stat(node.c_str(), &found) == 0) properties->nodes.push_back(node);
  }
  return 0;
}

// ---- Memory. ----

int Allocate(void* device, uint64_t bytes, DeviceBuffer* buffer) {
  GpuDevice& gpu = Of(device);
  GpuAllocationProperties properties;
  properties.location.id = gpu.ordinal;
  const uint64_t rounded = (bytes + gpu.granularity - 1) / gpu.granularity * gpu.granularity;
  GpuAllocation allocation = 0;
  if (const int error = gpu.driver.MemCreate(&allocation, rounded, &properties, 0); error != 0) return error;
  GpuAddress address = 0;
  const int error = MapGpuMemory(gpu.driver, gpu.ordinal, allocation, rounded, 0, kGpuReadWrite, &address);
  if (error != 0) {
    gpu.driver.MemRelease(allocation);
    return error;
  }
  *buffer = {reinterpret_cast<void*>(address), rounded, static_cast<int64_t>(allocation)};
  return 0;
}

void Release(void* device, DeviceBuffer* buffer) {
  GpuDevice& gpu = Of(device);
  if (buffer->data != nullptr) {
    UnmapGpuMemory(gpu.driver, Address(buffer->data), buffer->bytes);
    gpu.driver.MemRelease(static_cast<GpuAllocation>(buffer->handle));
  }
  *buffer = {};
}

int ExportFd(void* device, const DeviceBuffer* buffer, Access, int* fd) {
  return Of(device).driver.MemExportToShareableHandle(fd, static_cast<GpuAllocation>(buffer->handle), kGpuFileDescriptor,
                                                      0);
}

int CopyIn(void* device, void* to, const void* from, uint64_t bytes) {
  return bytes == 0 ? 0 : Of(device).driver.MemcpyHtoD(Address(to), from, bytes);
}
int CopyOut(void* device, void* to, const void* from, uint64_t bytes) {
  return bytes == 0 ? 0 : Of(device).driver.MemcpyDtoH(to, Address(from), bytes);
}

// ---- Kernels over lists of items. ----

/// Runs a kernel over `count` items with the widest one's elements along x. `arguments` begin with the items' address.
int LaunchOverItems(GpuDevice& gpu, void* function, int count, uint64_t widest, uint64_t per_thread,
                    std::vector<void*> arguments) {
  const uint64_t blocks = (widest + kThreads * per_thread - 1) / (kThreads * per_thread);
  const uint64_t most = std::max<uint64_t>(1, kMaxBlocks / static_cast<uint64_t>(count));
  const auto grid = static_cast<unsigned>(std::clamp<uint64_t>(blocks, 1, std::max<uint64_t>(most, 8)));
  return gpu.driver.LaunchKernel(function, grid, static_cast<unsigned>(count), 1, kThreads, 1, 1, 0, nullptr,
                                 arguments.data(), nullptr);
}

template <class Item>
int Upload(GpuDevice& gpu, const Item* items, int count) {
  const size_t bytes = sizeof(Item) * static_cast<size_t>(count);
  if (const int error = gpu.Grow(&gpu.items, &gpu.items_bytes, bytes); error != 0) return error;
  return gpu.driver.MemcpyHtoD(gpu.items, items, bytes);
}

int CopyAll(void* device, const Copy* copies, int count) {
  GpuDevice& gpu = Of(device);
  constexpr int kFew = 4;
  if (gpu.copy == nullptr || count <= kFew) {
    for (int i = 0; i < count; ++i) {
      if (copies[i].bytes == 0) continue;
      const int error =
          gpu.driver.MemcpyDtoDAsync(Address(copies[i].to), Address(copies[i].from), copies[i].bytes, nullptr);
      if (error != 0) return error;
    }
    return gpu.driver.CtxSynchronize();
  }
  for (int first = 0; first < count; first += kMaxItems) {
    const int part = std::min(count - first, kMaxItems);
    if (const int error = Upload(gpu, copies + first, part); error != 0) return error;
    uint64_t widest = 0;
    for (int i = first; i < first + part; ++i) widest = std::max(widest, copies[i].bytes);
    if (const int error = LaunchOverItems(gpu, gpu.copy, part, widest, 64, {&gpu.items}); error != 0) return error;
    if (const int error = gpu.driver.CtxSynchronize(); error != 0) return error;
  }
  return 0;
}

int Poison(void* device, void* to, uint64_t bytes, uint16_t pattern) {
  GpuDevice& gpu = Of(device);
  int error = 0;
  if (bytes >= 2) error = gpu.driver.MemsetD16Async(Address(to), pattern, bytes / 2, nullptr);
  if (error == 0 && bytes % 2 != 0) {
    error = gpu.driver.MemsetD8Async(Address(to) + bytes - 1, static_cast<unsigned char>(pattern), 1, nullptr);
  }
  return error != 0 ? error : gpu.driver.CtxSynchronize();
}

/// A copy of device memory for the host to look at, where no kernel can.
int FetchedTo(GpuDevice& gpu, const void* data, uint64_t bytes, std::vector<unsigned char>* copy) {
  copy->resize(bytes + 1);  // never empty: its address stands for the memory
  return CopyOut(&gpu, copy->data(), data, bytes);
}

int CountChanged(void* device, const Span* spans, int count, uint16_t pattern, uint64_t* changed) {
  GpuDevice& gpu = Of(device);
  *changed = 0;
  if (count == 0) return 0;
  if (gpu.count_changed == nullptr) {
    for (int i = 0; i < count; ++i) {
      const uint64_t odd = Address(spans[i].data) % 2;  // the host's copy must begin likewise
      std::vector<unsigned char> copy(spans[i].bytes + 2);
      unsigned char* begin = copy.data() + (odd ^ (reinterpret_cast<uintptr_t>(copy.data()) % 2));
      if (const int error = CopyOut(device, begin, spans[i].data, spans[i].bytes); error != 0) return error;
      const Span here{begin, spans[i].bytes};
      uint64_t part = 0;
      CpuDeviceTable().count_changed(nullptr, &here, 1, pattern, &part);
      *changed += part;
    }
    return 0;
  }
  if (const int error = gpu.driver.MemsetD8Async(gpu.results, 0, sizeof(uint64_t), nullptr); error != 0) return error;
  for (int first = 0; first < count; first += kMaxItems) {
    const int part = std::min(count - first, kMaxItems);
    if (const int error = Upload(gpu, spans + first, part); error != 0) return error;
    uint64_t widest = 0;
    for (int i = first; i < first + part; ++i) widest = std::max(widest, spans[i].bytes);
    const int error = LaunchOverItems(gpu, gpu.count_changed, part, widest, 4, {&gpu.items, &pattern, &gpu.results});
    if (error != 0) return error;
  }
  return gpu.driver.MemcpyDtoH(changed, gpu.results, sizeof *changed);
}

int CompareOnHost(GpuDevice& gpu, const Comparison& comparison, uint64_t* differing) {
  static constexpr uint64_t kWidth[] = {4, 2, 2, 8, 4, 8, 1, 1, 1};  // of hone::DType
  if (comparison.dtype < 0 || comparison.dtype >= static_cast<int>(std::size(kWidth))) return kInvalidValue;
  const uint64_t bytes = comparison.count * kWidth[comparison.dtype];
  std::vector<unsigned char> got, want;
  if (const int error = FetchedTo(gpu, comparison.got, bytes, &got); error != 0) return error;
  if (const int error = FetchedTo(gpu, comparison.want, bytes, &want); error != 0) return error;
  Comparison here = comparison;
  here.got = got.data();
  here.want = want.data();
  return CpuDeviceTable().compare(nullptr, &here, 1, differing);
}

int Compare(void* device, const Comparison* comparisons, int count, uint64_t* differing) {
  static_assert(sizeof(Comparison) == 56, "as in kernels.h");
  GpuDevice& gpu = Of(device);
  if (gpu.compare == nullptr) {
    for (int i = 0; i < count; ++i) {
      if (const int error = CompareOnHost(gpu, comparisons[i], &differing[i]); error != 0) return error;
    }
    return 0;
  }
  for (int first = 0; first < count; first += kMaxItems) {
    const int part = std::min(count - first, kMaxItems);
    const size_t bytes = sizeof(uint64_t) * static_cast<size_t>(part);
    if (const int error = gpu.Grow(&gpu.results, &gpu.results_bytes, bytes); error != 0) return error;
    if (const int error = gpu.driver.MemsetD8Async(gpu.results, 0, bytes, nullptr); error != 0) return error;
    if (const int error = Upload(gpu, comparisons + first, part); error != 0) return error;
    uint64_t widest = 0;
    for (int i = first; i < first + part; ++i) widest = std::max(widest, comparisons[i].count);
    int error = LaunchOverItems(gpu, gpu.compare, part, widest, 4, {&gpu.items, &gpu.results});
    if (error == 0) error = gpu.driver.MemcpyDtoH(differing + first, gpu.results, bytes);
    if (error != 0) return error;
  }
  return 0;
}

// ---- Clock, cache, health. ----

int Evict(void* device) {
  GpuDevice& gpu = Of(device);
  const int error = gpu.driver.MemsetD8Async(gpu.scratch, 1, gpu.scratch_bytes, nullptr);
  return error != 0 ? error : gpu.driver.CtxSynchronize();
}

int64_t ClockNs(void*, pid_t) {
  timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return int64_t{now.tv_sec} * 1'000'000'000 + now.tv_nsec;
}

int MeasureClock(void* device, double* mhz) {
  GpuDevice& gpu = Of(device);
  *mhz = 0;
  if (gpu.clock == nullptr) return 0;
  unsigned long long nanoseconds = 20'000;
  void* arguments[] = {&nanoseconds, &gpu.results};
  int error = gpu.driver.LaunchKernel(gpu.clock, 1, 1, 1, 1, 1, 1, 0, nullptr, arguments, nullptr);
  unsigned long long reading[2] = {0, 1};  // cycles, nanoseconds
  if (error == 0) error = gpu.driver.MemcpyDtoH(reading, gpu.results, sizeof reading);
  if (error == 0) *mhz = 1000.0 * static_cast<double>(reading[0]) / static_cast<double>(std::max(reading[1], 1ull));
  return error;
}

int Probe(void* device) {
  GpuDevice& gpu = Of(device);
  constexpr uint16_t kPattern = 0x5AC3;
  void* data = reinterpret_cast<void*>(gpu.scratch);
  const size_t bytes = std::min<size_t>(gpu.scratch_bytes, 1 << 20);
  if (const int error = Poison(device, data, bytes, kPattern); error != 0) return error;
  const Span span{data, bytes};
  uint64_t changed = 0;
  if (const int error = CountChanged(device, &span, 1, kPattern, &changed); error != 0) return error;
  return changed == 0 ? 0 : kWrongResult;
}

template <const GpuDialect& kDialect>
constexpr DeviceTable MakeTable(const char* name, const char* backend, const char* torch_device) {
  return {
      .name = name,
      .backend = backend,
      .dialect = &kDialect,
      .torch_device = torch_device,
      .open = [](int index, void** device) { return OpenDevice(kDialect, index, device); },
      .close = Close,
      .properties = Properties,
      .error_name = [](int code) { return GpuErrorName(kDialect, code); },
      .launch_error_name = [](int code) { return GpuErrorName(kDialect, code); },
      .out_of_memory = 2,
      .allocate = Allocate,
      .release = Release,
      .export_fd = ExportFd,
      .copy_in = CopyIn,
      .copy_out = CopyOut,
      .copy = CopyAll,
      .poison = Poison,
      .count_changed = CountChanged,
      .compare = Compare,
      .evict = Evict,
      .clock_ns = ClockNs,
      .clock_is_wall = true,
      .measure_clock = MeasureClock,
      .probe = Probe,
  };
}

constexpr DeviceTable kCudaTable = MakeTable<kCudaDialect>("cuda", "cuda", "cuda");
constexpr DeviceTable kMusaTable = MakeTable<kMusaDialect>("musa", "musa", "musa");
constexpr DeviceTable kMusaOnCudaTable = MakeTable<kMusaOnCudaDialect>("musa-compat/cuda", "musa", "cuda");

}  // namespace

const DeviceTable& CudaDeviceTable() { return kCudaTable; }
const DeviceTable& MusaDeviceTable() { return kMusaTable; }
const DeviceTable& MusaOnCudaDeviceTable() { return kMusaOnCudaTable; }

}  // namespace hone::verifier
