#pragma once

#include "rollout/engine/cuda/device.cuh"
#include "rollout/engine/cuda/rows.h"

namespace hone::rollout::cuda HONE_HALF_NAMESPACE {

// One warp works on one head: each lane holds kDim / 64 pairs (d, d + kDim / 2), which rotate together. Pairs 2i and
// 2i + 1 of a lane are neighbours where there are two, so that they are read and written as one word.

template <int kDim>
__device__ __forceinline__ int PairAt(int lane, int i) {
  return kDim == 64 ? lane : 2 * lane + i % 2 + 64 * (i / 2);
}

template <int kDim>
__device__ __forceinline__ void LoadHead(const Half* in, float (&low)[kDim / 64], float (&high)[kDim / 64]) {
  const int lane = threadIdx.x % 32;
  if constexpr (kDim == 64) {
    low[0] = ToFloat(in[lane]);
    high[0] = ToFloat(in[lane + 32]);
  } else {
#pragma unroll
    for (int i = 0; i < kDim / 64; i += 2) {
      const int d = PairAt<kDim>(lane, i);
      const uint32_t l = *reinterpret_cast<const uint32_t*>(in + d), h = *reinterpret_cast<const uint32_t*>(in + d + kDim / 2);
      low[i] = Low(l);
      low[i + 1] = High(l);
      high[i] = Low(h);
      high[i + 1] = High(h);
    }
  }
}

template <int kDim>
__device__ __forceinline__ void StoreHead(Half* out, const float (&low)[kDim / 64], const float (&high)[kDim / 64]) {
  const int lane = threadIdx.x % 32;
  if constexpr (kDim == 64) {
    out[lane] = FromFloat(low[0]);
    out[lane + 32] = FromFloat(high[0]);
  } else {
#pragma unroll
    for (int i = 0; i < kDim / 64; i += 2) {
      const int d = PairAt<kDim>(lane, i);
      *reinterpret_cast<uint32_t*>(out + d) = Pack(low[i], low[i + 1]);
      *reinterpret_cast<uint32_t*>(out + d + kDim / 2) = Pack(high[i], high[i + 1]);
    }
  }
}

/// Normalises (weight given) and rotates a head with the plain version's rounding.
template <int kDim>
__device__ __forceinline__ void RotateHead(const Half* in, const Half* norm, const RotateArgs& r, int position,
                                           float (&low)[kDim / 64], float (&high)[kDim / 64]) {
  constexpr int kPairs = kDim / 64;
  const int lane = threadIdx.x % 32;
  LoadHead<kDim>(in, low, high);
  if (norm != nullptr) {
    float squares = 0;
#pragma unroll
    for (int i = 0; i < kPairs; ++i) squares += low[i] * low[i] + high[i] * high[i];
    const float inverse = rsqrtf(WarpSum(squares) / kDim + r.norm_eps);
    float low_weight[kPairs], high_weight[kPairs];
    LoadHead<kDim>(norm, low_weight, high_weight);
#pragma unroll
    for (int i = 0; i < kPairs; ++i) {
      low[i] = ScaleNormed(low[i] * inverse, low_weight[i], r.norm_offset);
      high[i] = ScaleNormed(high[i] * inverse, high_weight[i], r.norm_offset);
    }
  }
  const uint32_t* angles = reinterpret_cast<const uint32_t*>(r.angles) + static_cast<int64_t>(position) * (kDim / 2);
#pragma unroll
  for (int i = 0; i < kPairs; ++i) {
    const uint32_t angle = angles[PairAt<kDim>(lane, i)];
    const float c = Low(angle), s = High(angle), a = low[i], b = high[i];
    low[i] = Round(Round(a * c) - Round(b * s));
    high[i] = Round(Round(b * c) + Round(a * s));
  }
}

}  // namespace hone::rollout::cuda HONE_HALF_NAMESPACE
