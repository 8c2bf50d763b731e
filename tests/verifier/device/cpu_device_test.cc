#include <array>
#include <catch2/catch_test_macros.hpp>
#include <cmath>
#include <cstring>
#include <fcntl.h>
#include <limits>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>
#include <vector>

#include "base/tensor.h"
#include "verifier/device/device.h"

namespace hone::verifier {
namespace {

constexpr uint16_t kPoison = 0x7FF5;
constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
constexpr double kInf = std::numeric_limits<double>::infinity();

class CpuDevice {
 public:
  CpuDevice() { REQUIRE(table.open(0, &device) == 0); }
  ~CpuDevice() { table.close(device); }

  template <class T>
  uint64_t Differing(DType dtype, const std::vector<T>& got, const std::vector<T>& want, double atol = 0,
                     double rtol = 0) {
    Comparison comparison{got.data(), want.data(), got.size(), static_cast<int>(dtype), atol, rtol, kPoison};
    uint64_t differing = 0;
    REQUIRE(table.compare(device, &comparison, 1, &differing) == 0);
    return differing;
  }
  uint64_t Floats(double got, double want, double atol = 0, double rtol = 0) {
    const uint64_t wide = Differing<double>(DType::kFloat64, {got}, {want}, atol, rtol);
    const uint64_t narrow = Differing<float>(DType::kFloat32, {static_cast<float>(got)}, {static_cast<float>(want)}, atol, rtol);
    CHECK(wide == narrow);
    return narrow;
  }

  const DeviceTable& table = CpuDeviceTable();
  void* device = nullptr;
};

TEST_CASE("Comparison: |got - want| <= atol + rtol |want|, bounds included", "[verifier][device]") {
  CpuDevice cpu;
  CHECK(cpu.Floats(1.5, 1.0, 0.5, 0) == 0);
  CHECK(cpu.Floats(1.5, 1.0, 0.25, 0.25) == 0);
  CHECK(cpu.Floats(1.5, 1.0, 0.25, 0.125) == 1);
  CHECK(cpu.Floats(-4.0, 4.0, 0, 1) == 1);  // relative to the size, never by sign
}

TEST_CASE("Comparison: NaN and infinities match by position and sign only", "[verifier][device]") {
  CpuDevice cpu;
  CHECK(cpu.Floats(kNan, kNan) == 0);
  CHECK(cpu.Floats(kNan, 1, 1e9, 1e9) == 1);
  CHECK(cpu.Floats(1, kNan, 1e9, 1e9) == 1);
  CHECK(cpu.Floats(kInf, kInf) == 0);
  CHECK(cpu.Floats(-kInf, kInf, 1e9, 1e9) == 1);
  CHECK(cpu.Floats(1, kInf, 1e9, 1e9) == 1);
  CHECK(cpu.Floats(kInf, 1, 1e9, 1e9) == 1);
  CHECK(cpu.Floats(0.0, -0.0) == 0);
}

TEST_CASE("Comparison: an element that still holds the poison differs, also where NaN is right", "[verifier][device]") {
  CpuDevice cpu;
  const auto poisoned = [&](auto zero) {
    std::vector<decltype(zero)> values(3, zero);
    cpu.table.poison(cpu.device, values.data(), values.size() * sizeof zero, kPoison);
    return values;
  };
  CHECK(cpu.Differing<float>(DType::kFloat32, poisoned(0.f), std::vector<float>(3, NAN)) == 3);
  CHECK(cpu.Differing<double>(DType::kFloat64, poisoned(0.0), std::vector<double>(3, NAN)) == 3);
  CHECK(cpu.Differing<uint16_t>(DType::kFloat16, poisoned(uint16_t{0}), std::vector<uint16_t>(3, 0x7E00)) == 3);
  CHECK(cpu.Differing<uint16_t>(DType::kBFloat16, poisoned(uint16_t{0}), std::vector<uint16_t>(3, 0x7FC0)) == 3);
  for (const float value : poisoned(0.f)) CHECK(std::isnan(value));
  for (const double value : poisoned(0.0)) CHECK(std::isnan(value));
}

TEST_CASE("Comparison: half precision by value", "[verifier][device]") {
  CpuDevice cpu;
  // float16: 0x3C00 = 1, 0x3C01 = 1 + 2^-10, 0x0001 = 2^-24, 0x7C00 = inf. bfloat16: 0x3F80 = 1, 0x3F81 = 1 + 2^-7.
  CHECK(cpu.Differing<uint16_t>(DType::kFloat16, {0x3C01}, {0x3C00}, 0.001, 0) == 0);
  CHECK(cpu.Differing<uint16_t>(DType::kFloat16, {0x3C01}, {0x3C00}, 0.0009, 0) == 1);
  CHECK(cpu.Differing<uint16_t>(DType::kFloat16, {0x0001}, {0x0000}, 6e-8, 0) == 0);
  CHECK(cpu.Differing<uint16_t>(DType::kFloat16, {0x7C00}, {0xFC00}, 1, 1) == 1);
  CHECK(cpu.Differing<uint16_t>(DType::kFloat16, {0x8000}, {0x0000}) == 0);
  CHECK(cpu.Differing<uint16_t>(DType::kBFloat16, {0x3F81}, {0x3F80}, 0.008, 0) == 0);
  CHECK(cpu.Differing<uint16_t>(DType::kBFloat16, {0x3F81}, {0x3F80}, 0.007, 0) == 1);
}

TEST_CASE("Comparison: integers and booleans exactly, beyond what double holds", "[verifier][device]") {
  CpuDevice cpu;
  CHECK(cpu.Differing<int64_t>(DType::kInt64, {(int64_t{1} << 60) + 1}, {int64_t{1} << 60}, 1, 1) == 1);
  CHECK(cpu.Differing<int32_t>(DType::kInt32, {1, 2, 3}, {1, 5, 3}) == 1);
  CHECK(cpu.Differing<uint8_t>(DType::kBool, {1, 0, 2}, {1, 0, 1}) == 1);
}

TEST_CASE("Every difference among many elements is counted once", "[verifier][device]") {
  CpuDevice cpu;
  std::vector<float> want(1000), got;
  for (size_t i = 0; i < want.size(); ++i) want[i] = static_cast<float>(i);
  got = want;
  for (size_t i = 0; i < want.size(); i += 7) got[i] += 1;
  CHECK(cpu.Differing<float>(DType::kFloat32, got, want) == 143);
}

TEST_CASE("Changed bytes are counted, at odd begins and ends too", "[verifier][device]") {
  CpuDevice cpu;
  alignas(64) std::array<unsigned char, 64> bytes;
  const auto count = [&](size_t begin, size_t length) {
    const Span span{bytes.data() + begin, length};
    uint64_t changed = 1;
    REQUIRE(cpu.table.count_changed(cpu.device, &span, 1, kPoison, &changed) == 0);
    return changed;
  };
  cpu.table.poison(cpu.device, bytes.data(), bytes.size(), kPoison);
  for (size_t begin = 0; begin < 5; ++begin) {
    for (size_t length = 0; begin + length < 20; ++length) {
      CHECK(count(begin, length) == 0);
    }
  }
  bytes[13] ^= 1;
  CHECK(count(13, 1) == 1);
  CHECK(count(3, 20) == 1);
}

TEST_CASE("Who imports a buffer for reading can write to it by no way, and nobody can cut it short", "[verifier][device]") {
  CpuDevice cpu;
  DeviceBuffer buffer;
  REQUIRE(cpu.table.allocate(cpu.device, 8192, &buffer) == 0);
  int fd = -1;
  REQUIRE(cpu.table.export_fd(cpu.device, &buffer, Access::kRead, &fd) == 0);
  CHECK(mmap(nullptr, 8192, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0) == MAP_FAILED);
  void* read_only = mmap(nullptr, 8192, PROT_READ, MAP_SHARED, fd, 0);
  REQUIRE(read_only != MAP_FAILED);
  CHECK(mprotect(read_only, 8192, PROT_READ | PROT_WRITE) != 0);
  const std::string again = "/proc/self/fd/" + std::to_string(fd);
  const int writable = open(again.c_str(), O_RDWR);
  if (writable >= 0) {  // the owner of the file may open it; the seal still holds
    CHECK(mmap(nullptr, 8192, PROT_READ | PROT_WRITE, MAP_SHARED, writable, 0) == MAP_FAILED);
    CHECK(write(writable, "x", 1) < 0);
    CHECK(ftruncate(writable, 0) != 0);
    close(writable);
  }
  static_cast<char*>(buffer.data)[100] = 'j';  // the judge still can
  CHECK(static_cast<const char*>(read_only)[100] == 'j');
  munmap(read_only, 8192);
  close(fd);
  cpu.table.release(cpu.device, &buffer);
}

TEST_CASE("The clock of a process is its processor time: sleeping is free, work is not, the dead have none", "[verifier][device]") {
  CpuDevice cpu;
  const auto forked = [](auto body) {
    const pid_t pid = fork();
    if (pid == 0) {
      body();
      pause();
      _exit(0);
    }
    return pid;
  };
  const pid_t sleeper = forked([] {});
  const pid_t worker = forked([] {
    timespec now;
    do {
      clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
    } while (now.tv_sec == 0 && now.tv_nsec < 100'000'000);
  });
  while (cpu.table.clock_ns(cpu.device, worker) < 90'000'000) usleep(1000);
  CHECK(cpu.table.clock_ns(cpu.device, sleeper) < 50'000'000);
  for (const pid_t pid : {sleeper, worker}) {
    kill(pid, SIGKILL);
    waitpid(pid, nullptr, 0);
    CHECK(cpu.table.clock_ns(cpu.device, pid) == -1);
  }
}

}  // namespace
}  // namespace hone::verifier
