#pragma once

// What the engine's kernels need of CUDA, on a CPU: see gpu.h. These headers stand before CUDA's own on the include path.

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>

#include "gpu.h"

#define __device__
#define __host__
#define __global__
#define __forceinline__ inline
#define __launch_bounds__(...)
#define __grid_constant__

using cudaError_t = int;
using cudaStream_t = void*;
enum { cudaSuccess = 0, cudaErrorInvalidValue = 1 };
enum { cudaFuncAttributeMaxDynamicSharedMemorySize };
enum { cudaLaunchAttributeCooperative, cudaLaunchAttributeProgrammaticStreamSerialization, cudaLaunchAttributeClusterDimension };

struct uint4 {
  uint32_t x, y, z, w;
};
struct uint2 {
  uint32_t x, y;
};
struct float2 {
  float x, y;
};
struct float4 {
  float x, y, z, w;
};
inline uint4 make_uint4(uint32_t x, uint32_t y, uint32_t z, uint32_t w) { return {x, y, z, w}; }
inline uint2 make_uint2(uint32_t x, uint32_t y) { return {x, y}; }
inline float2 make_float2(float x, float y) { return {x, y}; }

using std::max;
using std::min;
inline float __uint_as_float(uint32_t bits) {
  float value;
  std::memcpy(&value, &bits, 4);
  return value;
}
inline uint32_t __float_as_uint(float value) {
  uint32_t bits;
  std::memcpy(&bits, &value, 4);
  return bits;
}
inline float rsqrtf(float x) { return 1.0f / std::sqrt(x); }
inline float __expf(float x) { return std::exp(x); }
template <class T>
T __ldcg(const T* from) {
  return *from;
}
inline int32_t atomicAdd(int32_t* to, int32_t amount) {
  const int32_t before = *to;
  *to += amount;
  return before;
}
inline long long clock64() { return 0; }
[[noreturn]] inline void __trap() { hone::emulated::Fail("the kernel gave up waiting"); }

inline void __syncwarp() { hone::emulated::SyncWarp(); }
inline void __syncthreads() { hone::emulated::SyncBlock(0, static_cast<int>(blockDim.x)); }
inline float __shfl_xor_sync(unsigned, float value, int lanes) {
  uint32_t bits;
  std::memcpy(&bits, &value, 4);
  return __uint_as_float(hone::emulated::Exchange(bits, static_cast<int>(threadIdx.x % 32) ^ lanes));
}

struct cudaLaunchAttribute {
  int id = 0;
  struct {
    int cooperative, programmaticStreamSerializationAllowed;
    dim3 clusterDim;
  } val;
};
struct cudaLaunchConfig_t {
  dim3 gridDim, blockDim;
  size_t dynamicSmemBytes = 0;
  cudaStream_t stream = nullptr;
  cudaLaunchAttribute* attrs = nullptr;
  int numAttrs = 0;
};
template <class Kernel>
cudaError_t cudaFuncSetAttribute(Kernel, int, int) {
  return cudaSuccess;
}
template <class Kernel, class Args>
cudaError_t cudaLaunchKernelEx(const cudaLaunchConfig_t* config, Kernel kernel, const Args& args) {
  hone::emulated::Run(config->gridDim, config->blockDim, config->dynamicSmemBytes, [&] { kernel(args); });
  return cudaSuccess;
}
