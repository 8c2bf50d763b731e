#pragma once

// Attention of the queries of one key head over a cache page at a time, by one warp, on tensor cores.

#include "rollout/engine/cuda/device.cuh"
#include "rollout/engine/cuda/rows.h"

namespace hone::rollout::cuda HONE_HALF_NAMESPACE {

inline constexpr int kQueries = 16;  // of one key head that are taken together: the rows of a tensor-core tile

/// Shared tiles are rows of kDim numbers in 16-byte chunks; a chunk's place is mixed with its row, so that the eight rows
/// of a matrix lie in different banks.
template <int kDim>
__device__ __forceinline__ uint32_t ChunkOffset(int row, int chunk) {
  return static_cast<uint32_t>(row * kDim * 2 + ((chunk ^ (row & 7)) * 16));
}

/// Puts number `d` of a tile's row.
template <int kDim>
__device__ __forceinline__ void StoreInTile(unsigned char* tile, int row, int d, float value) {
  *reinterpret_cast<Half*>(tile + ChunkOffset<kDim>(row, d / 8) + d % 8 * 2) = FromFloat(value);
}

/// Fetches a page's keys and values of one head into two tiles; positions outside [begin, end) become zeros.
template <int kDim>
__device__ __forceinline__ void FetchPage(const Half* keys, int64_t values_after, int first_position, int begin, int end, uint32_t keys_at) {
  constexpr int kChunks = kDim / 8, kPageBytes = kPagePositions * kDim * 2;
#pragma unroll
  for (int i = 0; i < kPagePositions * kChunks / 32; ++i) {
    const int piece = i * 32 + threadIdx.x % 32, r = piece / kChunks, chunk = piece % kChunks;
    const bool valid = first_position + r >= begin && first_position + r < end;
    CopyAsync(keys_at + ChunkOffset<kDim>(r, chunk), keys + piece * 8, valid);
    CopyAsync(keys_at + kPageBytes + ChunkOffset<kDim>(r, chunk), keys + values_after + piece * 8, valid);
  }
}

/// The softmax that runs along (arXiv:1805.02867), in powers of two. A lane holds rows lane / 4 and lane / 4 + 8.
template <int kDim>
struct PageAttention {
  float out[kDim / 8][4] = {};
  float best[2] = {-INFINITY, -INFINITY}, sum[2] = {0, 0};

  /// Adds the positions of a page that are in [begin, end); there is at least one. scale: times log2(e).
  __device__ __forceinline__ void Add(uint32_t queries_at, uint32_t keys_at, uint32_t values_at, int first_position, int begin, int end,
                                      float scale) {
    const int lane = threadIdx.x % 32;
    float score[2][4] = {};
#pragma unroll
    for (int k = 0; k < kDim / 16; ++k) {
      uint32_t q[4], key[4];
      LoadMatrices(q, queries_at + ChunkOffset<kDim>(lane % 16, 2 * k + lane / 16));
      LoadMatrices(key, keys_at + ChunkOffset<kDim>(lane / 16 * 8 + lane % 8, 2 * k + lane / 8 % 2));
      Multiply(score[0], q, key[0], key[1]);
      Multiply(score[1], q, key[2], key[3]);
    }
    float top[2] = {best[0], best[1]};
#pragma unroll
    for (int t = 0; t < 2; ++t) {
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        const int p = first_position + t * 8 + lane % 4 * 2 + i % 2;
        score[t][i] = p >= begin && p < end ? score[t][i] * scale : -INFINITY;
        top[i / 2] = fmaxf(top[i / 2], score[t][i]);
      }
    }
    float shrink[2];
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      top[h] = fmaxf(top[h], __shfl_xor_sync(0xffffffffu, top[h], 1));
      top[h] = fmaxf(top[h], __shfl_xor_sync(0xffffffffu, top[h], 2));
      shrink[h] = exp2f(best[h] - top[h]);
      best[h] = top[h];
      sum[h] *= shrink[h];
    }
#pragma unroll
    for (int t = 0; t < 2; ++t) {
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        score[t][i] = exp2f(score[t][i] - best[i / 2]);
        sum[i / 2] += score[t][i];
      }
    }
    const uint32_t weights[4] = {Pack(score[0][0], score[0][1]), Pack(score[0][2], score[0][3]),
                                 Pack(score[1][0], score[1][1]), Pack(score[1][2], score[1][3])};
#pragma unroll
    for (int d = 0; d < kDim / 16; ++d) {
      uint32_t value[4];
      LoadMatricesTransposed(value, values_at + ChunkOffset<kDim>(lane % 16, 2 * d + lane / 16));
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        float(&o)[4] = out[2 * d + half];
#pragma unroll
        for (int i = 0; i < 4; ++i) o[i] *= shrink[i / 2];
        Multiply(o, weights, value[2 * half], value[2 * half + 1]);
      }
    }
  }

  /// After the last page: sums over the lanes that share a row; leaves the warp's rows for JoinWarps. join [queries][kDim]
  __device__ __forceinline__ void Leave(int queries, float* join, float* row_max, float* row_sum) {
    const int lane = threadIdx.x % 32;
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      sum[h] += __shfl_xor_sync(0xffffffffu, sum[h], 1);
      sum[h] += __shfl_xor_sync(0xffffffffu, sum[h], 2);
    }
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      const int q = lane / 4 + 8 * h;
      if (lane % 4 == 0) {
        row_max[q] = best[h];
        row_sum[q] = sum[h];
      }
      if (q >= queries) continue;
#pragma unroll
      for (int n = 0; n < kDim / 8; ++n) {
        *reinterpret_cast<float2*>(join + q * kDim + n * 8 + lane % 4 * 2) = make_float2(out[n][2 * h], out[n][2 * h + 1]);
      }
    }
  }
};

/// What the warps left for number d of query q: not yet divided by `total`. A warp without pages adds nothing.
struct Joined {
  float value, top, total;
};
template <int kDim, int kWarps>
__device__ __forceinline__ Joined JoinWarps(const float* join, const float (*row_max)[kQueries], const float (*row_sum)[kQueries], int q, int d) {
  Joined all{0, -INFINITY, 0};
#pragma unroll
  for (int w = 0; w < kWarps; ++w) all.top = fmaxf(all.top, row_max[w][q]);
#pragma unroll
  for (int w = 0; w < kWarps; ++w) {
    const float factor = exp2f(row_max[w][q] - all.top);
    all.total += factor * row_sum[w][q];
    all.value += factor * join[(w * kQueries + q) * kDim + d];
  }
  return all;
}

}  // namespace hone::rollout::cuda HONE_HALF_NAMESPACE
