// MUSA's device tables: every function of the driver goes through libmusa of the compatibility toolchain to a driver
// whose memory is the host's (fake_cuda.cc).

#include <dlfcn.h>
#include <unistd.h>
#include <catch2/catch_test_macros.hpp>
#include <cstdlib>
#include <cstring>
#include <set>
#include <string>
#include <vector>

#include "base/tensor.h"
#include "verifier/device/device.h"
#include "verifier/device/musa/dialect.h"

namespace hone::verifier {
namespace {

constexpr uint16_t kPoison = 0x7FF5;

void UseFakeDriver() { setenv(kCompatDriverVariable, HONE_FAKE_CUDA, 1); }

/// The compatibility driver under the name that Moore Threads' own has: what kMusaDialect then opens.
void StandInForMusa() {
  UseFakeDriver();
  REQUIRE(dlopen(InstalledPath(kMusaOnCudaDialect.driver_library).c_str(), RTLD_NOW | RTLD_GLOBAL) != nullptr);
}

TEST_CASE("Tables have names of their own, and say whose candidates they run and where references do",
          "[verifier][musa]") {
  std::set<std::string> names;
  for (const DeviceTable* table : DeviceTables()) {
    CHECK(names.insert(table->name).second);
    CHECK(FindDeviceTable(table->name) == table);
  }
  CHECK(FindDeviceTable("rocm") == nullptr);
  CHECK(FindDeviceTable("musa")->torch_device == std::string("musa"));
  CHECK(FindDeviceTable("musa-compat/cuda")->backend == std::string("musa"));
  CHECK(FindDeviceTable("musa-compat/cuda")->torch_device == std::string("cuda"));
  CHECK(FindDeviceTable("musa-compat/cpu")->dialect == nullptr);
}

TEST_CASE("Each dialect is like CUDA's under its own names, errors included", "[verifier][musa]") {
  CHECK(std::string(MusaDeviceTable().error_name(2)) == "musaErrorMemoryAllocation");
  CHECK(std::string(MusaOnCudaDeviceTable().launch_error_name(700)) == "musaErrorIllegalAddress");
  CHECK(std::string(MusaOnCpuDeviceTable().launch_error_name(9)) == "musaErrorInvalidConfiguration");
  CHECK(std::string(CudaDeviceTable().launch_error_name(9)) == "cudaErrorInvalidConfiguration");
}

TEST_CASE("Over the compatibility driver a device allocates, shares, poisons, counts and compares",
          "[verifier][musa]") {
  StandInForMusa();
  for (const DeviceTable* table : {&MusaOnCudaDeviceTable(), &MusaDeviceTable()}) {
    INFO(table->name);
    void* device = nullptr;
    REQUIRE(table->open(0, &device) == 0);
    DeviceProperties properties;
    REQUIRE(table->properties(device, &properties) == 0);
    CHECK(properties.name == "fake GPU");
    CHECK(properties.architecture == std::string(table->dialect->architecture_prefix) + "10");
    CHECK(properties.driver_library == InstalledPath(kMusaOnCudaDialect.driver_library));
    CHECK(properties.unique_id == (table == &MusaDeviceTable() ? "0" : "GPU-00010203-0405-0607-0809-0a0b0c0d0e0f"));
    CHECK(table->probe(device) == 0);

    DeviceBuffer got, want;
    REQUIRE(table->allocate(device, 4096, &got) == 0);
    REQUIRE(table->allocate(device, 4096, &want) == 0);
    REQUIRE(table->poison(device, got.data, 4096, kPoison) == 0);
    const Span span{got.data, 4096};
    uint64_t changed = 1;
    REQUIRE(table->count_changed(device, &span, 1, kPoison, &changed) == 0);
    CHECK(changed == 0);
    const std::vector<float> values = {1, 2, 3, 4};
    REQUIRE(table->copy_in(device, want.data, values.data(), 16) == 0);
    const Copy copy{got.data, want.data, 12};  // the last one keeps its poison
    REQUIRE(table->copy(device, &copy, 1) == 0);
    const int dtype = static_cast<int>(DType::kFloat32);
    const Comparison comparison = {got.data, want.data, 4, dtype, 9, 9, kPoison};
    uint64_t differing = 7;
    REQUIRE(table->compare(device, &comparison, 1, &differing) == 0);
    CHECK(differing == 1);

    int fd = -1;
    REQUIRE(table->export_fd(device, &want, Access::kReadWrite, &fd) == 0);
    GpuDriver driver;
    std::string error;
    REQUIRE(driver.Load(*table->dialect, properties.driver_library, &error));
    GpuAllocation imported = 0;
    void* shared = reinterpret_cast<void*>(static_cast<intptr_t>(fd));
    REQUIRE(driver.MemImportFromShareableHandle(&imported, shared, kGpuFileDescriptor) == 0);
    close(fd);
    GpuAddress address = 0;
    REQUIRE(MapGpuMemory(driver, 0, imported, want.bytes, 0, kGpuRead, &address) == 0);
    CHECK(std::memcmp(reinterpret_cast<const void*>(address), values.data(), 16) == 0);
    UnmapGpuMemory(driver, address, want.bytes);
    driver.MemRelease(imported);
    table->release(device, &got);
    table->release(device, &want);
    table->close(device);
  }
}

TEST_CASE("What CUDA's driver refuses comes through; a driver that is not there is no crash", "[verifier][musa]") {
  StandInForMusa();
  void* device = nullptr;
  setenv("FAKE_CUDA_FAIL", "cuInit:100", 1);
  CHECK(MusaOnCudaDeviceTable().open(0, &device) == 100);
  unsetenv("FAKE_CUDA_FAIL");
  CHECK(MusaOnCudaDeviceTable().open(5, &device) == 101);
  std::vector<GpuListing> gpus;
  std::string error;
  CHECK(ListGpus(kMusaOnCudaDialect, &gpus, &error));
  CHECK(gpus.size() == 1);
}

}  // namespace
}  // namespace hone::verifier
