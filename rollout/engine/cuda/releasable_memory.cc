#include "rollout/engine/cuda/releasable_memory.h"

#include <c10/core/CachingDeviceAllocator.h>
#include <cuda_runtime_api.h>

#include "cmake/torch_pch.h"
#include "rollout/engine/cuda/check.h"

namespace hone::rollout::cuda {
namespace {

// A function of the driver; the program is not linked with it, so that it starts where there is none.
template <class Function>
Function* Driver(Function*, const char* name) {
  void* found = nullptr;
  cudaDriverEntryPointQueryResult result = cudaDriverEntryPointSymbolNotFound;
  CheckCuda(cudaGetDriverEntryPointByVersion(name, &found, 12000, cudaEnableDefault, &result));
  TORCH_CHECK(result == cudaDriverEntryPointSuccess && found != nullptr, "CUDA: the driver has no ", name);
  return reinterpret_cast<Function*>(found);
}
#define HONE_DRIVER(name) Driver(static_cast<decltype(&name)>(nullptr), #name)

void Check(CUresult error, const char* what) { TORCH_CHECK(error == CUDA_SUCCESS, "CUDA: ", what, " failed with driver error ", static_cast<int>(error)); }

CUmemAllocationProp PropertiesOf(int device) {
  CUmemAllocationProp properties{};
  properties.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  properties.location = {CU_MEM_LOCATION_TYPE_DEVICE, device};
  return properties;
}

}  // namespace

std::unique_ptr<ReleasableMemory> ReleasableMemory::Reserve(int device, int64_t bytes) {
  std::unique_ptr<ReleasableMemory> memory(new ReleasableMemory(device));
  const CUmemAllocationProp properties = PropertiesOf(device);
  size_t unit = 0;
  Check(HONE_DRIVER(cuMemGetAllocationGranularity)(&unit, &properties, CU_MEM_ALLOC_GRANULARITY_RECOMMENDED), "cuMemGetAllocationGranularity");
  memory->bytes_ = (static_cast<size_t>(bytes) + unit - 1) / unit * unit;
  Check(HONE_DRIVER(cuMemAddressReserve)(&memory->address_, memory->bytes_, 0, 0, 0), "cuMemAddressReserve");
  return memory;
}

ReleasableMemory::~ReleasableMemory() {
  if (address_ == 0) return;
  try {
    if (held()) Release();
    HONE_DRIVER(cuMemAddressFree)(address_, bytes_);
  } catch (const c10::Error&) {  // the device is lost, and its memory with it
  }
}

CUresult ReleasableMemory::Create() {
  const CUmemAllocationProp properties = PropertiesOf(device_);
  return HONE_DRIVER(cuMemCreate)(&allocation_, bytes_, &properties, 0);
}

void ReleasableMemory::Map() {
  Check(HONE_DRIVER(cuMemMap)(address_, bytes_, 0, allocation_, 0), "cuMemMap");
  CUmemAccessDesc access{};
  access.location = {CU_MEM_LOCATION_TYPE_DEVICE, device_};
  access.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
  const CUresult error = HONE_DRIVER(cuMemSetAccess)(address_, bytes_, &access, 1);
  if (error != CUDA_SUCCESS) HONE_DRIVER(cuMemUnmap)(address_, bytes_);
  Check(error, "cuMemSetAccess");
}

void ReleasableMemory::Take() {
  if (held()) return;
  CUresult error = Create();
  if (error == CUDA_ERROR_OUT_OF_MEMORY) {
    c10::getDeviceAllocator(at::kCUDA)->emptyCache();
    error = Create();
  }
  if (error != CUDA_SUCCESS) allocation_ = 0;
  TORCH_CHECK_WITH(OutOfMemoryError, error != CUDA_ERROR_OUT_OF_MEMORY, "the device has no ", bytes_ >> 20, " MiB left");
  Check(error, "cuMemCreate");
  try {
    Map();
  } catch (...) {
    HONE_DRIVER(cuMemRelease)(allocation_);
    allocation_ = 0;
    throw;
  }
  CheckCuda(cudaMemset(data(), 0, bytes_));
  CheckCuda(cudaDeviceSynchronize());
}

void ReleasableMemory::Release() {
  if (!held()) return;
  Check(HONE_DRIVER(cuMemUnmap)(address_, bytes_), "cuMemUnmap");
  const CUmemGenericAllocationHandle allocation = allocation_;
  allocation_ = 0;
  Check(HONE_DRIVER(cuMemRelease)(allocation), "cuMemRelease");
}

}  // namespace hone::rollout::cuda
