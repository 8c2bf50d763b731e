#include "policy/model/device.h"

#include <c10/core/CachingDeviceAllocator.h>
#include <c10/core/impl/DeviceGuardImplInterface.h>
#include <dlfcn.h>

#include <filesystem>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "policy/model/torch_status.h"
#ifdef HONE_WITH_CUDA
#include <cuda_runtime_api.h>
#endif

namespace hone::policy {
namespace {

// libtorch_cuda.so beside the libtorch_cpu.so that this process runs on. Nothing may ask torch whether it has CUDA
// before that: the answer is kept for ever.
absl::Status LoadCuda() {
  Dl_info info{};
  if (dladdr(reinterpret_cast<void*>(&at::globalContext), &info) == 0 || info.dli_fname == nullptr) {
    return absl::FailedPreconditionError("libtorch_cpu.so is not where the loader says");
  }
  const std::string path = (std::filesystem::path(info.dli_fname).parent_path() / "libtorch_cuda.so").string();
  if (dlopen(path.c_str(), RTLD_NOW | RTLD_GLOBAL) == nullptr) {
    return absl::FailedPreconditionError(absl::StrCat("no CUDA in this torch: ", dlerror()));
  }
  return absl::OkStatus();
}

c10::DeviceAllocator* AllocatorOf(const at::Device& device) {
  return device.is_cpu() ? nullptr : c10::getDeviceAllocator(device.type());
}

}  // namespace

absl::StatusOr<at::Device> FindDevice(const std::string& name) {
  if (name == "cpu") return at::Device(at::kCPU);
  int index = 0;
  const bool numbered = name.rfind("cuda:", 0) == 0;
  if (!(name == "cuda" || (numbered && absl::SimpleAtoi(name.substr(5), &index) && index >= 0 && index < 128))) {
    return absl::InvalidArgumentError(absl::StrCat("device \"", name, "\", allowed cpu, cuda or cuda:<n>"));
  }
  HONE_RETURN_IF_ERROR(LoadCuda());
  HONE_ASSIGN_OR_RETURN(const int count, CatchTorch("cuda", [&] {
                          return static_cast<int>(c10::impl::getDeviceGuardImpl(at::kCUDA)->deviceCount());
                        }));
  if (index >= count)
    return absl::FailedPreconditionError(absl::StrCat("device ", name, ": the driver shows ", count, " devices"));
  const at::Device device(at::kCUDA, static_cast<at::DeviceIndex>(index));
  HONE_RETURN_IF_ERROR(CatchTorch("cuda", [&] {
                         at::globalContext().lazyInitDevice(at::kCUDA);
                         UseDevice(device);
                         return true;
                       }).status());
  return device;
}

void UseDevice(const at::Device& device) {
  if (!device.is_cpu()) c10::impl::getDeviceGuardImpl(device.type())->setDevice(device);
}

void Synchronize(const at::Device& device) {
  if (!device.is_cpu()) c10::impl::getDeviceGuardImpl(device.type())->synchronizeDevice(device.index());
}

void* CurrentStream(const at::Device& device) {
  return c10::impl::getDeviceGuardImpl(device.type())->getStream(device).native_handle();
}

DeviceMemory MemoryOf(const at::Device& device) {
  c10::DeviceAllocator* allocator = AllocatorOf(device);
  if (allocator == nullptr) return {};
  const auto stats = allocator->getDeviceStats(device.index());
  constexpr size_t kAll = static_cast<size_t>(c10::CachingAllocator::StatType::AGGREGATE);
  const auto [free_bytes, total_bytes] = allocator->getMemoryInfo(device.index());
  return {stats.allocated_bytes[kAll].current, stats.allocated_bytes[kAll].peak, stats.reserved_bytes[kAll].peak,
          static_cast<int64_t>(total_bytes - free_bytes)};
}

int64_t FreeBytes(const at::Device& device) {
  c10::DeviceAllocator* allocator = AllocatorOf(device);
  return allocator == nullptr ? 0 : static_cast<int64_t>(allocator->getMemoryInfo(device.index()).first);
}

void ResetPeakMemory(const at::Device& device) {
  if (c10::DeviceAllocator* allocator = AllocatorOf(device); allocator != nullptr)
    allocator->resetPeakStats(device.index());
}

double PeakFlops(const at::Device& device) {
#ifdef HONE_WITH_CUDA
  int major = 0;
  if (device.is_cpu() || cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, device.index()) != cudaSuccess) return 0;
  int minor = 0;
  cudaDeviceGetAttribute(&minor, cudaDevAttrComputeCapabilityMinor, device.index());
  if (minor != 0) return 0;  // 8.6, 8.9 and 12.x are many different boards
  return major == 8 ? 312e12 : major == 9 ? 989e12 : major == 10 ? 2250e12 : 0;
#else
  static_cast<void>(device);
  return 0;
#endif
}

}  // namespace hone::policy
