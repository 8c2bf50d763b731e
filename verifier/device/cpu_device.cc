// The CPU backend's buffers, clock and comparison. Buffers are memory files: size and (where asked) contents are sealed
// against whoever they are handed to, so that a runner can neither cut a file short under the judge nor write to inputs.

#include <cerrno>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <ctime>
#include <fcntl.h>
#include <limits>
#include <string>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>
#include <vector>

#include "base/tensor.h"
#include "verifier/device/cuda/driver.h"
#include "verifier/device/device.h"
#include "verifier/device/musa/dialect.h"

#ifndef F_SEAL_FUTURE_WRITE
#define F_SEAL_FUTURE_WRITE 0x0010  // Linux 5.1
#endif

#if defined(__x86_64__)
#define HONE_VECTOR_CLONES __attribute__((target_clones("arch=x86-64-v3", "default")))
#else
#define HONE_VECTOR_CLONES
#endif

namespace hone::verifier {
namespace {

struct CpuDevice {
  int core = 0;
  std::vector<unsigned char> scratch;  // what Evict fills the cache with
  volatile unsigned char sink = 0;
};

std::string FirstLine(const std::string& path) {
  std::string line;
  if (FILE* file = std::fopen(path.c_str(), "re")) {
    char buffer[256];
    if (std::fgets(buffer, sizeof buffer, file)) line = buffer;
    std::fclose(file);
  }
  while (!line.empty() && (line.back() == '\n' || line.back() == ' ')) line.pop_back();
  return line;
}

/// Bytes of the core's level-2 cache; 2 MiB where the kernel does not say.
int64_t LevelTwoBytes(int core) {
  for (int index = 0; index < 8; ++index) {
    const std::string folder =
        "/sys/devices/system/cpu/cpu" + std::to_string(core) + "/cache/index" + std::to_string(index);
    if (FirstLine(folder + "/level") != "2") continue;
    const std::string size = FirstLine(folder + "/size");
    const int64_t kibibytes = std::atoll(size.c_str());
    if (kibibytes > 0) return kibibytes * (size.back() == 'M' ? 1 << 20 : 1 << 10);
  }
  return 2 << 20;
}

/// A field of the first processor in /proc/cpuinfo.
std::string CpuInfo(const char* field) {
  std::string value;
  if (FILE* file = std::fopen("/proc/cpuinfo", "re")) {
    char line[512];
    while (value.empty() && std::fgets(line, sizeof line, file)) {
      const char* colon = std::strchr(line, ':');
      if (std::strncmp(line, field, std::strlen(field)) == 0 && colon != nullptr) value = colon + 1;
    }
    std::fclose(file);
  }
  while (!value.empty() && (value.back() == '\n' || value.back() == ' ')) value.pop_back();
  while (!value.empty() && value.front() == ' ') value.erase(value.begin());
  return value;
}

int Open(int index, void** device) {
  auto* opened = new CpuDevice{index};
  opened->scratch.assign(static_cast<size_t>(2 * LevelTwoBytes(index)), 1);
  *device = opened;
  return 0;
}
void Close(void* device) { delete static_cast<CpuDevice*>(device); }

int Properties(void* device, DeviceProperties* properties) {
  *properties = {};
  properties->name = "cpu";
  properties->cache_bytes = LevelTwoBytes(static_cast<CpuDevice*>(device)->core);
  properties->clock_mhz = std::atof(CpuInfo("cpu MHz").c_str());
  properties->peak_bytes_per_ns = 1024;  // two full vector stores a cycle at 8 GHz: no core comes near
  properties->emulated = true;
  return 0;
}

const char* ErrorName(int code) { return strerror(code); }

/// Codes of the CUDA runtime, which the emulation returns too.
template <const GpuDialect& kDialect>
const char* LaunchErrorName(int code) {
  return GpuErrorName(kDialect, code);
}

int Allocate(void*, uint64_t bytes, DeviceBuffer* buffer) {
  const int fd = memfd_create("hone", MFD_CLOEXEC | MFD_ALLOW_SEALING);
  if (fd < 0) return errno;
  void* data = MAP_FAILED;
  if (ftruncate(fd, static_cast<off_t>(bytes)) == 0 && fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW) == 0) {
    data = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  }
  if (data == MAP_FAILED) {
    const int error = errno;
    close(fd);
    return error;
  }
  *buffer = {data, bytes, fd};
  return 0;
}

void Release(void*, DeviceBuffer* buffer) {
  if (buffer->data != nullptr) munmap(buffer->data, buffer->bytes);
  if (buffer->handle >= 0) close(static_cast<int>(buffer->handle));
  *buffer = {};
}

int ExportFd(void*, const DeviceBuffer* buffer, Access access, int* fd) {
  const int own = static_cast<int>(buffer->handle);
  if (access == Access::kReadWrite) {
    *fd = fcntl(own, F_DUPFD_CLOEXEC, 0);
    return *fd < 0 ? errno : 0;
  }
  // The seal keeps writes out even from a process that opens the file anew through /proc.
  if (fcntl(own, F_ADD_SEALS, F_SEAL_FUTURE_WRITE) != 0) return errno;
  char path[64];
  std::snprintf(path, sizeof path, "/proc/self/fd/%d", own);
  *fd = open(path, O_RDONLY | O_CLOEXEC);
  return *fd < 0 ? errno : 0;
}

int CopyBytes(void*, void* to, const void* from, uint64_t bytes) {
  std::memcpy(to, from, bytes);
  return 0;
}

int CopyAll(void*, const Copy* copies, int count) {
  for (int i = 0; i < count; ++i) std::memcpy(copies[i].to, copies[i].from, copies[i].bytes);
  return 0;
}

HONE_VECTOR_CLONES
void FillWords(uint16_t* words, uint64_t count, uint16_t pattern) {
  for (uint64_t i = 0; i < count; ++i) words[i] = pattern;
}

int Poison(void*, void* to, uint64_t bytes, uint16_t pattern) {
  FillWords(static_cast<uint16_t*>(to), bytes / 2, pattern);
  if (bytes % 2 != 0) static_cast<unsigned char*>(to)[bytes - 1] = static_cast<unsigned char>(pattern);
  return 0;
}

HONE_VECTOR_CLONES
uint64_t CountChangedWords(const uint16_t* words, uint64_t count, uint16_t pattern) {
  uint64_t changed = 0;
  for (uint64_t i = 0; i < count; ++i) changed += words[i] != pattern;
  return changed;
}

/// A span may begin at an odd address: a one-byte tensor's neighbour. Bytes at even ones hold the low half of the pattern.
uint64_t ChangedIn(const Span& span, uint16_t pattern) {
  const auto* at = static_cast<const unsigned char*>(span.data);
  uint64_t bytes = span.bytes;
  uint64_t changed = 0;
  if (bytes > 0 && reinterpret_cast<uintptr_t>(at) % 2 != 0) {
    changed += *at != static_cast<unsigned char>(pattern >> 8);
    ++at;
    --bytes;
  }
  changed += CountChangedWords(reinterpret_cast<const uint16_t*>(at), bytes / 2, pattern);
  if (bytes % 2 != 0) changed += at[bytes - 1] != static_cast<unsigned char>(pattern);
  return changed;
}

int CountChanged(void*, const Span* spans, int count, uint16_t pattern, uint64_t* changed) {
  *changed = 0;
  for (int i = 0; i < count; ++i) *changed += ChangedIn(spans[i], pattern);
  return 0;
}

float HalfToFloat(uint16_t half) {
  const uint32_t sign = uint32_t{half & 0x8000u} << 16;
  const uint32_t exponent = (half >> 10) & 0x1F;
  const uint32_t mantissa = half & 0x3FF;
  float value;
  if (exponent == 0) {
    value = std::ldexp(static_cast<float>(mantissa), -24);
  } else if (exponent == 31) {
    value = mantissa != 0 ? std::numeric_limits<float>::quiet_NaN() : std::numeric_limits<float>::infinity();
  } else {
    value = std::ldexp(static_cast<float>(mantissa | 0x400), static_cast<int>(exponent) - 25);
  }
  uint32_t bits;
  std::memcpy(&bits, &value, sizeof bits);
  bits |= sign;
  std::memcpy(&value, &bits, sizeof bits);
  return value;
}

float BFloatToFloat(uint16_t half) {
  const uint32_t bits = uint32_t{half} << 16;
  float value;
  std::memcpy(&value, &bits, sizeof bits);
  return value;
}

/// Whether `got` stands for `want`; `unwritten`: it still holds the poison.
inline bool Agrees(double got, double want, bool unwritten, double atol, double rtol) {
  const bool close = std::fabs(got - want) <= atol + rtol * std::fabs(want);
  const bool finite = std::fabs(want) <= std::numeric_limits<double>::max();
  const bool both_nan = (got != got) & (want != want) & !unwritten;
  return (close & finite) | (got == want) | both_nan;
}

HONE_VECTOR_CLONES
uint64_t CompareFloat(const float* got, const float* want, uint64_t count, double atol, double rtol, uint32_t poison) {
  uint64_t differing = 0;
  for (uint64_t i = 0; i < count; ++i) {
    uint32_t bits;
    std::memcpy(&bits, got + i, sizeof bits);
    const double g = got[i];
    const double w = want[i];
    const bool close = std::fabs(g - w) <= atol + rtol * std::fabs(w);
    const bool finite = std::fabs(w) <= std::numeric_limits<double>::max();
    const bool both_nan = (g != g) & (w != w) & (bits != poison);
    differing += !((close & finite) | (g == w) | both_nan);
  }
  return differing;
}

uint64_t CompareDouble(const Comparison& c) {
  const auto* got = static_cast<const double*>(c.got);
  const auto* want = static_cast<const double*>(c.want);
  const uint64_t poison = 0x0001000100010001u * uint64_t{c.poison};
  uint64_t differing = 0;
  for (uint64_t i = 0; i < c.count; ++i) {
    uint64_t bits;
    std::memcpy(&bits, got + i, sizeof bits);
    differing += !Agrees(got[i], want[i], bits == poison, c.atol, c.rtol);
  }
  return differing;
}

template <float (*kWiden)(uint16_t)>
uint64_t CompareHalf(const Comparison& c) {
  const auto* got = static_cast<const uint16_t*>(c.got);
  const auto* want = static_cast<const uint16_t*>(c.want);
  uint64_t differing = 0;
  for (uint64_t i = 0; i < c.count; ++i) {
    if (got[i] == want[i] && got[i] != c.poison) continue;
    differing += !Agrees(kWiden(got[i]), kWiden(want[i]), got[i] == c.poison, c.atol, c.rtol);
  }
  return differing;
}

template <class Int>
uint64_t CompareExactly(const Comparison& c) {
  const auto* got = static_cast<const Int*>(c.got);
  const auto* want = static_cast<const Int*>(c.want);
  uint64_t differing = 0;
  for (uint64_t i = 0; i < c.count; ++i) differing += got[i] != want[i];
  return differing;
}

int CompareOne(const Comparison& c, uint64_t* differing) {
  switch (static_cast<DType>(c.dtype)) {
    case DType::kFloat32:
      *differing = CompareFloat(static_cast<const float*>(c.got), static_cast<const float*>(c.want), c.count, c.atol,
                                c.rtol, 0x00010001u * uint32_t{c.poison});
      return 0;
    case DType::kFloat64:
      *differing = CompareDouble(c);
      return 0;
    case DType::kFloat16:
      *differing = CompareHalf<HalfToFloat>(c);
      return 0;
    case DType::kBFloat16:
      *differing = CompareHalf<BFloatToFloat>(c);
      return 0;
    case DType::kInt32:
      *differing = CompareExactly<uint32_t>(c);
      return 0;
    case DType::kInt64:
      *differing = CompareExactly<uint64_t>(c);
      return 0;
    case DType::kInt8:
    case DType::kUInt8:
    case DType::kBool:
      *differing = CompareExactly<uint8_t>(c);
      return 0;
  }
  return EINVAL;
}

int Compare(void*, const Comparison* comparisons, int count, uint64_t* differing) {
  for (int i = 0; i < count; ++i) {
    if (const int error = CompareOne(comparisons[i], &differing[i]); error != 0) return error;
  }
  return 0;
}

int Evict(void* device) {
  constexpr size_t kLine = 64;
  auto* cpu = static_cast<CpuDevice*>(device);
  unsigned char sum = 0;
  for (size_t i = 0; i < cpu->scratch.size(); i += kLine) sum += cpu->scratch[i];
  cpu->sink = sum;
  return 0;
}

int64_t ClockNs(void*, pid_t runner) {
  clockid_t clock;
  timespec now;
  if (clock_getcpuclockid(runner, &clock) != 0 || clock_gettime(clock, &now) != 0) return -1;
  return int64_t{now.tv_sec} * 1'000'000'000 + now.tv_nsec;
}

template <const GpuDialect& kLaunches>
constexpr DeviceTable MakeTable(const char* name, const char* backend) {
  return {
      .name = name,
      .backend = backend,
      .dialect = nullptr,
      .torch_device = "",
      .open = Open,
      .close = Close,
      .properties = Properties,
      .error_name = ErrorName,
      .launch_error_name = LaunchErrorName<kLaunches>,
      .out_of_memory = 2,
      .allocate = Allocate,
      .release = Release,
      .export_fd = ExportFd,
      .copy_in = CopyBytes,
      .copy_out = CopyBytes,
      .copy = CopyAll,
      .poison = Poison,
      .count_changed = CountChanged,
      .compare = Compare,
      .evict = Evict,
      .clock_ns = ClockNs,
      .clock_is_wall = false,
      .measure_clock = nullptr,
      .probe = nullptr,
  };
}

constexpr DeviceTable kTable = MakeTable<kCudaDialect>("cpu", "cpu");
constexpr DeviceTable kMusaTable = MakeTable<kMusaDialect>("musa-compat/cpu", "musa");

}  // namespace

const DeviceTable& CpuDeviceTable() { return kTable; }
const DeviceTable& MusaOnCpuDeviceTable() { return kMusaTable; }

std::vector<const DeviceTable*> DeviceTables() {
  return {&CpuDeviceTable(), &CudaDeviceTable(), &MusaDeviceTable(), &MusaOnCudaDeviceTable(), &MusaOnCpuDeviceTable()};
}

const DeviceTable* FindDeviceTable(const std::string& name) {
  for (const DeviceTable* table : DeviceTables()) {
    if (name == table->name) return table;
  }
  return nullptr;
}

}  // namespace hone::verifier
