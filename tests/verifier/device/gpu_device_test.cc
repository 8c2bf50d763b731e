// The device table of GPUs against a driver whose memory is the host's (fake_cuda.cc), and its kernels against nvcc.

#include <catch2/catch_test_macros.hpp>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <dlfcn.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>
#include <vector>

#include "base/file.h"
#include "base/subprocess.h"
#include "base/tensor.h"
#include "verifier/device/cuda/driver.h"
#include "verifier/device/cuda/kernels.h"
#include "verifier/device/device.h"

#if __has_include(<cuda.h>)
#include <cuda.h>
#include <driver_types.h>
#define HONE_HAS_CUDA_HEADERS
#endif

namespace hone::verifier {
namespace {

constexpr uint16_t kPoison = 0x7FF5;

/// From now on this process's libcuda.so.1 is the fake one.
void UseFakeDriver() { REQUIRE(dlopen(HONE_FAKE_CUDA, RTLD_NOW | RTLD_GLOBAL) != nullptr); }

class FakeGpu {
 public:
  FakeGpu() {
    UseFakeDriver();
    REQUIRE(table.open(0, &device) == 0);
  }
  ~FakeGpu() { table.close(device); }

  DeviceBuffer Allocate(uint64_t bytes) {
    DeviceBuffer buffer;
    REQUIRE(table.allocate(device, bytes, &buffer) == 0);
    return buffer;
  }

  const DeviceTable& table = CudaDeviceTable();
  void* device = nullptr;
};

class Failing {
 public:
  explicit Failing(const char* what) { setenv("FAKE_CUDA_FAIL", what, 1); }
  ~Failing() { unsetenv("FAKE_CUDA_FAIL"); }
};

TEST_CASE("A GPU tells its name, architecture, cache, and how a child finds it alone", "[verifier][device]") {
  FakeGpu gpu;
  DeviceProperties properties;
  REQUIRE(gpu.table.properties(gpu.device, &properties) == 0);
  CHECK(properties.name == "fake GPU");
  CHECK(properties.architecture == "sm_10");
  CHECK(properties.cache_bytes == 1 << 20);
  CHECK(properties.clock_mhz == 1000);
  CHECK_FALSE(properties.emulated);
  CHECK_FALSE(properties.maps_parts);
  CHECK(properties.map_unit == 2 << 20);
  CHECK(properties.unique_id == "GPU-00010203-0405-0607-0809-0a0b0c0d0e0f");
  CHECK(properties.driver_library == HONE_FAKE_CUDA);
}

TEST_CASE("A buffer's size is a multiple of the device's unit, and who imports it sees the same memory", "[verifier][device]") {
  FakeGpu gpu;
  DeviceBuffer buffer = gpu.Allocate(100);
  CHECK(buffer.bytes == 2 << 20);
  int fd = -1;
  REQUIRE(gpu.table.export_fd(gpu.device, &buffer, Access::kReadWrite, &fd) == 0);
  GpuDriver driver;
  std::string error;
  REQUIRE(driver.Load(kCudaDialect, HONE_FAKE_CUDA, &error));
  GpuAllocation imported = 0;
  REQUIRE(driver.MemImportFromShareableHandle(&imported, reinterpret_cast<void*>(static_cast<intptr_t>(fd)), kGpuFileDescriptor) == 0);
  close(fd);
  constexpr GpuAddress kWanted = 0x300000000000;
  GpuAddress address = 0;
  REQUIRE(MapGpuMemory(driver, 0, imported, buffer.bytes, kWanted, kGpuRead, &address) == 0);
  CHECK(address == kWanted);
  REQUIRE(gpu.table.copy_in(gpu.device, buffer.data, "seen", 5) == 0);
  CHECK(std::strcmp(reinterpret_cast<const char*>(address), "seen") == 0);
  UnmapGpuMemory(driver, address, buffer.bytes);
  driver.MemRelease(imported);
  gpu.table.release(gpu.device, &buffer);
  CHECK(buffer.data == nullptr);
}

TEST_CASE("Without a run-time compiler the host poisons, counts and compares as the CPU device does", "[verifier][device]") {
  FakeGpu gpu;
  DeviceBuffer got = gpu.Allocate(4096), want = gpu.Allocate(4096);
  REQUIRE(gpu.table.poison(gpu.device, got.data, 4096, kPoison) == 0);
  Span spans[] = {{got.data, 4096}, {static_cast<char*>(got.data) + 1, 1000}};
  uint64_t changed = 1;
  REQUIRE(gpu.table.count_changed(gpu.device, spans, 2, kPoison, &changed) == 0);
  CHECK(changed == 0);

  const std::vector<float> values = {1, NAN, 3, 4};
  REQUIRE(gpu.table.copy_in(gpu.device, want.data, values.data(), 16) == 0);
  const Copy copy{got.data, want.data, 12};  // the last one keeps its poison
  REQUIRE(gpu.table.copy(gpu.device, &copy, 1) == 0);
  REQUIRE(gpu.table.count_changed(gpu.device, spans, 1, kPoison, &changed) == 0);
  CHECK(changed > 0);
  const int dtype = static_cast<int>(DType::kFloat32);
  const Comparison comparisons[] = {{got.data, want.data, 3, dtype, 0, 0, kPoison}, {got.data, want.data, 4, dtype, 9, 9, kPoison}};
  uint64_t differing[2] = {7, 7};
  REQUIRE(gpu.table.compare(gpu.device, comparisons, 2, differing) == 0);
  CHECK(differing[0] == 0);
  CHECK(differing[1] == 1);
  gpu.table.release(gpu.device, &got);
  gpu.table.release(gpu.device, &want);
}

TEST_CASE("A healthy device passes its probe; what the driver refuses is named as the runtime names it", "[verifier][device]") {
  FakeGpu gpu;
  CHECK(gpu.table.probe(gpu.device) == 0);
  {
    const Failing lost("cuMemsetD16Async:700");
    CHECK(gpu.table.probe(gpu.device) == 700);
  }
  {
    const Failing full("cuMemCreate:2");
    DeviceBuffer buffer;
    CHECK(gpu.table.allocate(gpu.device, 4096, &buffer) == gpu.table.out_of_memory);
    CHECK(buffer.data == nullptr);
  }
  CHECK(std::string(gpu.table.error_name(2)) == "cudaErrorMemoryAllocation");
  CHECK(std::string(gpu.table.launch_error_name(700)) == "cudaErrorIllegalAddress");
  CHECK(std::string(gpu.table.error_name(12345)) == "cudaError12345");
}

TEST_CASE("A device that is not there, or whose driver does not start, is not opened", "[verifier][device]") {
  UseFakeDriver();
  void* device = nullptr;
  CHECK(CudaDeviceTable().open(7, &device) == 101);
  const Failing broken("cuInit:999");
  CHECK(CudaDeviceTable().open(0, &device) == 999);
  std::vector<GpuListing> gpus;
  std::string error;
  CHECK_FALSE(ListGpus(kCudaDialect, &gpus, &error));
  CHECK(error == "cudaErrorUnknown");
}

TEST_CASE("The clock of a GPU's rounds runs on while a runner sleeps", "[verifier][device]") {
  FakeGpu gpu;
  CHECK(gpu.table.clock_is_wall);
  const int64_t before = gpu.table.clock_ns(gpu.device, 1);
  usleep(2000);
  CHECK(gpu.table.clock_ns(gpu.device, 1) - before >= 2'000'000);
}

#ifdef HONE_HAS_CUDA_HEADERS
TEST_CASE("What is declared of the driver's API is what cuda.h declares", "[verifier][device]") {
  static_assert(sizeof(GpuAllocationProperties) == sizeof(CUmemAllocationProp));
  static_assert(offsetof(GpuAllocationProperties, location) == offsetof(CUmemAllocationProp, location));
  static_assert(sizeof(GpuAccess) == sizeof(CUmemAccessDesc) && offsetof(GpuAccess, flags) == offsetof(CUmemAccessDesc, flags));
  static_assert(sizeof(GpuAddress) == sizeof(CUdeviceptr) && sizeof(GpuAllocation) == sizeof(CUmemGenericAllocationHandle));
  CHECK(GpuAllocationProperties().type == CU_MEM_ALLOCATION_TYPE_PINNED);
  CHECK(GpuAllocationProperties().handle_types == CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR);
  CHECK(GpuMemoryLocation().type == CU_MEM_LOCATION_TYPE_DEVICE);
  CHECK(kGpuRead == CU_MEM_ACCESS_FLAGS_PROT_READ);
  CHECK(kGpuReadWrite == CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
  CHECK(static_cast<int>(GpuAttribute::kClockKhz) == CU_DEVICE_ATTRIBUTE_CLOCK_RATE);
  CHECK(static_cast<int>(GpuAttribute::kCacheBytes) == CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE);
  CHECK(static_cast<int>(GpuAttribute::kMajor) == CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR);
  CHECK(static_cast<int>(GpuAttribute::kMinor) == CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR);
  CHECK(cudaErrorIllegalAddress == 700);
  CHECK(cudaErrorInvalidConfiguration == 9);
}
#endif

TEST_CASE("nvcc takes the judge's kernels", "[verifier][device]") {
  const std::string nvcc = ToolkitFolder(kCudaDialect) + "/bin/nvcc";
  if (!FileExists(nvcc)) SKIP("no CUDA toolkit");
  const TempFolder folder = TempFolder::Create("kernels").value();
  REQUIRE(WriteFileAtomically(folder.path() + "/judge.cu", std::string(kJudgeKernels) + kCudaDialect.clock_kernel).ok());
  SpawnOptions spawn;
  spawn.argv = {nvcc, "-cubin", "-arch=sm_90", "-Werror=all-warnings", "-o", folder.path() + "/judge.cubin", folder.path() + "/judge.cu"};
  const RunResult result = Run(spawn, absl::Seconds(100)).value();
  INFO(result.output);
  CHECK(result.exit_code == 0);
}

}  // namespace
}  // namespace hone::verifier
