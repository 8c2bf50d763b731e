#pragma once

// What the kernels of this folder share: arithmetic in sixteen bits with the rounding points of the plain model, reductions, and
// launches that let a kernel start while the one before it still runs (programmatic dependent launch).
//
// gemv.cu, paged_attention.cu and rows.cu are compiled twice (fp16/): the sixteen bits of weights and activations are bf16, or with
// HONE_FP16 defined IEEE's half precision, and everything is in a namespace of its own, fp16. What differs is in this file alone.

#include <cuda_bf16.h>
#include <cuda_runtime.h>
#ifdef HONE_FP16
#include <cuda_fp16.h>
#endif

#include <cstdint>

#include "rollout/engine/cuda/ptx.cuh"

#ifdef HONE_FP16
#define HONE_HALF_NAMESPACE ::fp16
#else
#define HONE_HALF_NAMESPACE
#endif

namespace hone::rollout::cuda HONE_HALF_NAMESPACE {

using Bf16 = __nv_bfloat16;
using Half = Bf16;  // in memory; with HONE_FP16 its bits are those of a __half

#ifdef HONE_FP16
__device__ __forceinline__ float ToFloat(Half x) { return __half2float(*reinterpret_cast<const __half*>(&x)); }
__device__ __forceinline__ Half FromFloat(float x) {
  const __half rounded = __float2half_rn(x);
  return *reinterpret_cast<const Half*>(&rounded);
}
__device__ __forceinline__ float Round(float x) { return __half2float(__float2half_rn(x)); }
__device__ __forceinline__ float Low(uint32_t pair) { return __low2float(*reinterpret_cast<const __half2*>(&pair)); }
__device__ __forceinline__ float High(uint32_t pair) { return __high2float(*reinterpret_cast<const __half2*>(&pair)); }
__device__ __forceinline__ uint32_t Pack(float low, float high) {
  const __half2 both = __floats2half2_rn(low, high);
  return *reinterpret_cast<const uint32_t*>(&both);
}
/// c [16, 8] += a [16, 16] b [16, 8]
__device__ __forceinline__ void Multiply(float (&c)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1) {
  asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
               : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
               : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}
#else
__device__ __forceinline__ float ToFloat(Half x) { return __bfloat162float(x); }
__device__ __forceinline__ Half FromFloat(float x) { return __float2bfloat16_rn(x); }
__device__ __forceinline__ float Round(float x) { return __bfloat162float(__float2bfloat16_rn(x)); }
__device__ __forceinline__ float Low(uint32_t pair) { return __uint_as_float(pair << 16); }
__device__ __forceinline__ float High(uint32_t pair) { return __uint_as_float(pair & 0xffff0000u); }
__device__ __forceinline__ uint32_t Pack(float low, float high) {
  const __nv_bfloat162 both = __floats2bfloat162_rn(low, high);
  return *reinterpret_cast<const uint32_t*>(&both);
}
#endif

/// sum + w . x of eight numbers each, added in order.
__device__ __forceinline__ float Dot8(uint4 w, uint4 x, float sum) {
  sum = fmaf(Low(w.x), Low(x.x), sum);
  sum = fmaf(High(w.x), High(x.x), sum);
  sum = fmaf(Low(w.y), Low(x.y), sum);
  sum = fmaf(High(w.y), High(x.y), sum);
  sum = fmaf(Low(w.z), Low(x.z), sum);
  sum = fmaf(High(w.z), High(x.z), sum);
  sum = fmaf(Low(w.w), Low(x.w), sum);
  return fmaf(High(w.w), High(x.w), sum);
}

__device__ __forceinline__ float WarpSum(float x) {
#pragma unroll
  for (int step = 16; step > 0; step /= 2) x += __shfl_xor_sync(0xffffffffu, x, step);
  return x;
}
__device__ __forceinline__ float WarpMax(float x) {
#pragma unroll
  for (int step = 16; step > 0; step /= 2) x = fmaxf(x, __shfl_xor_sync(0xffffffffu, x, step));
  return x;
}

/// Sum over the block's kWarps warps, to every thread. `scratch` [kWarps] is shared memory, free again after the next
/// barrier.
template <int kWarps>
__device__ __forceinline__ float BlockSum(float x, float* scratch) {
  x = WarpSum(x);
  if (threadIdx.x % 32 == 0) scratch[threadIdx.x / 32] = x;
  __syncthreads();
  float sum = 0;
#pragma unroll
  for (int w = 0; w < kWarps; ++w) sum += scratch[w];
  return sum;
}

/// x_hat * weight with the plain version's rounding: to sixteen bits before the product, or (offset 1) only after it.
__device__ __forceinline__ float ScaleNormed(float normed, float weight, float offset) {
  return offset == 0 ? Round(Round(normed) * weight) : Round(normed * (weight + offset));
}

/// act(gate) * up as ATen rounds it.
__device__ __forceinline__ float Gated(float gate, float up, bool gelu) {
  float a;
  if (gelu) {
    const float inner = 0.7978845608028654f * (gate + 0.044715f * gate * gate * gate);
    a = 0.5f * gate * (1.0f + tanhf(inner));
  } else {
    a = gate / (1.0f + __expf(-gate));
  }
  return Round(a) * up;
}

/// `cluster` blocks along x form a cluster.
template <class Kernel, class Args>
cudaError_t Launch(Kernel kernel, dim3 grid, dim3 block, size_t shared_bytes, cudaStream_t stream, const Args& args, int cluster = 1) {
  if (shared_bytes > 32 * 1024) {
    const cudaError_t error = cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, static_cast<int>(shared_bytes));
    if (error != cudaSuccess) return error;
  }
  cudaLaunchAttribute attributes[2] = {};
  attributes[0].id = cudaLaunchAttributeProgrammaticStreamSerialization;
  attributes[0].val.programmaticStreamSerializationAllowed = 1;
  attributes[1].id = cudaLaunchAttributeClusterDimension;
  attributes[1].val.clusterDim.x = cluster;
  attributes[1].val.clusterDim.y = 1;
  attributes[1].val.clusterDim.z = 1;
  cudaLaunchConfig_t config{};
  config.gridDim = grid;
  config.blockDim = block;
  config.dynamicSmemBytes = shared_bytes;
  config.stream = stream;
  config.attrs = attributes;
  config.numAttrs = cluster > 1 ? 2 : 1;
  return cudaLaunchKernelEx(&config, kernel, args);
}

}  // namespace hone::rollout::cuda HONE_HALF_NAMESPACE
