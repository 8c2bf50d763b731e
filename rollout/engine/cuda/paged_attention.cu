#include "rollout/engine/cuda/device.cuh"
#include "rollout/engine/cuda/paged_attention.h"
#include "rollout/engine/cuda/rotate.cuh"

namespace hone::rollout::cuda {
namespace {

constexpr int kQueries = 16;  // of one key head that a block takes together: the rows of a tensor-core tile
constexpr int kStages = 2;    // pages in flight a warp

__device__ __forceinline__ uint32_t SharedAddress(const void* p) { return static_cast<uint32_t>(__cvta_generic_to_shared(p)); }

// 16 bytes into shared memory, zeros when not `valid`.
__device__ __forceinline__ void CopyAsync(uint32_t to, const void* from, bool valid) {
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(to), "l"(from), "r"(valid ? 16 : 0) : "memory");
}
__device__ __forceinline__ void CommitCopies() { asm volatile("cp.async.commit_group;" ::: "memory"); }
template <int kPending>
__device__ __forceinline__ void WaitForCopies() {
  asm volatile("cp.async.wait_group %0;" ::"n"(kPending) : "memory");
}

__device__ __forceinline__ void LoadMatrices(uint32_t (&r)[4], uint32_t at) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
               : "r"(at)
               : "memory");
}
__device__ __forceinline__ void LoadMatricesTransposed(uint32_t (&r)[4], uint32_t at) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
               : "r"(at)
               : "memory");
}
__device__ __forceinline__ void Multiply(float (&c)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1) {
  asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
               : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
               : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

// Shared tiles are rows of kDim numbers in 16-byte chunks; a chunk's place is mixed with its row, so that the eight rows
// of a matrix lie in different banks.
template <int kDim>
__device__ __forceinline__ uint32_t ChunkOffset(int row, int chunk) {
  return static_cast<uint32_t>(row * kDim * 2 + ((chunk ^ (row & 7)) * 16));
}

// Bytes of a block's shared memory: queries, then a ring of (keys, values) pages for each warp. The ring is used again to
// join the warps.
template <int kDim>
constexpr int SharedBytes(int warps) {
  const int queries = kQueries * kDim * 2, ring = warps * kStages * 2 * kPagePositions * kDim * 2;
  const int join = warps * kQueries * kDim * 4;
  return queries + (ring > join ? ring : join);
}

template <int kDim, int kWarps>
__global__ void __launch_bounds__(kWarps * 32) PagedAttentionKernel(const PagedAttentionArgs a) {
  constexpr int kChunks = kDim / 8, kPageBytes = kPagePositions * kDim * 2, kThreads = kWarps * 32;
  extern __shared__ __align__(128) unsigned char shared[];
  __shared__ float row_max[kWarps][kQueries], row_sum[kWarps][kQueries];
  __shared__ int last_block;
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  const int kv_heads = a.pages.kv_heads, group = a.heads / kv_heads;
  const int tiles = (group + kQueries - 1) / kQueries;  // query tiles of one key head
  const int kv = blockIdx.x / tiles, first_query = kv * group + blockIdx.x % tiles * kQueries;
  const int queries = min(kQueries, (kv + 1) * group - first_query);
  const int split = blockIdx.y, row = blockIdx.z;
  const int position = a.positions[row], length = position + 1;
  const int first = a.window > 0 ? max(0, length - a.window) : 0;
  const int first_split = first / a.split_positions, last_split = position / a.split_positions;
  LetNextKernelStart();
  if (position < 0 || split < first_split || split > last_split) return;
  const int begin = max(first, split * a.split_positions), end = min(length, (split + 1) * a.split_positions);
  const int first_page = begin / kPagePositions, last_page = (end - 1) / kPagePositions;
  const int32_t* table = a.tables + static_cast<int64_t>(row) * a.table_stride;

  unsigned char* query_tile = shared;
  const uint32_t queries_at = SharedAddress(query_tile);
  const uint32_t ring_at = queries_at + kQueries * kDim * 2 + warp * kStages * 2 * kPageBytes;
  const auto fetch = [&](int page, int stage) {
    const Bf16* keys = a.pages.data + (static_cast<int64_t>(table[page]) * 2 * kv_heads + kv) * kPagePositions * kDim;
    const Bf16* values = keys + static_cast<int64_t>(kv_heads) * kPagePositions * kDim;
    const uint32_t at = ring_at + stage * 2 * kPageBytes;
#pragma unroll
    for (int i = 0; i < kPagePositions * kChunks / 32; ++i) {
      const int piece = i * 32 + lane, r = piece / kChunks, chunk = piece % kChunks;
      const int p = page * kPagePositions + r;
      const bool valid = p >= begin && p < end;
      CopyAsync(at + ChunkOffset<kDim>(r, chunk), keys + piece * 8, valid);
      CopyAsync(at + kPageBytes + ChunkOffset<kDim>(r, chunk), values + piece * 8, valid);
    }
  };
  // Pages without the new token were written by earlier steps: they may be fetched before the projection has ended.
  const int own_page = position / kPagePositions;
  int page = first_page + warp;
  const bool early = page <= last_page && page != own_page && !a.prepared;
  if (early) fetch(page, 0);
  CommitCopies();

  WaitForEarlierKernels();
  const Bf16* qkv = a.qkv + static_cast<int64_t>(row) * (a.heads + 2 * kv_heads) * kDim;
  if (split == last_split && !a.prepared) {  // this block's range holds the new token
    const int64_t own = (static_cast<int64_t>(table[own_page]) * 2 * kv_heads + kv) * kPagePositions + position % kPagePositions;
    Bf16* key_to = a.pages.data + own * kDim;
    if (warp == 0) {
      float low[kDim / 64], high[kDim / 64];
      RotateHead<kDim>(qkv + (a.heads + kv) * kDim, a.rotate.key_norm, a.rotate, position, low, high);
      StoreHead<kDim>(key_to, low, high);
    } else if (warp == 1) {
      Bf16* value_to = key_to + static_cast<int64_t>(kv_heads) * kPagePositions * kDim;
      const Bf16* value = qkv + (a.heads + kv_heads + kv) * kDim;
#pragma unroll
      for (int i = 0; i < kDim / 32; ++i) value_to[lane + 32 * i] = value[lane + 32 * i];
    }
  }
  for (int q = warp; q < kQueries; q += kWarps) {
    float low[kDim / 64] = {}, high[kDim / 64] = {};
    if (q < queries && a.prepared) {
      LoadHead<kDim>(qkv + (first_query + q) * kDim, low, high);
    } else if (q < queries) {
      RotateHead<kDim>(qkv + (first_query + q) * kDim, a.rotate.query_norm, a.rotate, position, low, high);
    }
#pragma unroll
    for (int i = 0; i < kDim / 64; ++i) {
      const int d = PairAt<kDim>(lane, i), e = d + kDim / 2;
      *reinterpret_cast<Bf16*>(query_tile + ChunkOffset<kDim>(q, d / 8) + d % 8 * 2) = __float2bfloat16_rn(low[i]);
      *reinterpret_cast<Bf16*>(query_tile + ChunkOffset<kDim>(q, e / 8) + e % 8 * 2) = __float2bfloat16_rn(high[i]);
    }
  }
  __threadfence_block();
  __syncthreads();

  const float scale = a.scale * 1.4426950408889634f;  // scores in powers of two
  float out[kDim / 8][4] = {};
  float best[2] = {-INFINITY, -INFINITY}, sum[2] = {0, 0};  // of rows lane / 4 and lane / 4 + 8
  if (!early && page <= last_page) fetch(page, 0);
  CommitCopies();
  int stage = 0;
  for (; page <= last_page; page += kWarps, stage ^= 1) {
    if (page + kWarps <= last_page) fetch(page + kWarps, stage ^ 1);
    CommitCopies();
    WaitForCopies<1>();
    __syncwarp();
    const uint32_t keys_at = ring_at + stage * 2 * kPageBytes, values_at = keys_at + kPageBytes;
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
        const int p = page * kPagePositions + t * 8 + lane % 4 * 2 + i % 2;
        score[t][i] = p >= begin && p < end ? score[t][i] * scale : -INFINITY;
        top[i / 2] = fmaxf(top[i / 2], score[t][i]);
      }
    }
    float shrink[2];
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      top[h] = fmaxf(top[h], __shfl_xor_sync(0xffffffffu, top[h], 1));
      top[h] = fmaxf(top[h], __shfl_xor_sync(0xffffffffu, top[h], 2));
      shrink[h] = exp2f(best[h] - top[h]);  // the first page of a range always holds a valid position
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
    __syncwarp();
  }
#pragma unroll
  for (int h = 0; h < 2; ++h) {
    sum[h] += __shfl_xor_sync(0xffffffffu, sum[h], 1);
    sum[h] += __shfl_xor_sync(0xffffffffu, sum[h], 2);
  }

  // Joins the warps: each leaves its rows in shared memory, then every thread adds up its own numbers.
  WaitForCopies<0>();
  __syncthreads();
  float* join = reinterpret_cast<float*>(shared + kQueries * kDim * 2);  // [kWarps][kQueries][kDim]
  if (lane % 4 == 0) {
    row_max[warp][lane / 4] = best[0];
    row_max[warp][lane / 4 + 8] = best[1];
    row_sum[warp][lane / 4] = sum[0];
    row_sum[warp][lane / 4 + 8] = sum[1];
  }
#pragma unroll
  for (int n = 0; n < kDim / 8; ++n) {
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      const int q = lane / 4 + 8 * h;
      if (q < queries) {
        float2* to = reinterpret_cast<float2*>(join + (warp * kQueries + q) * kDim + n * 8 + lane % 4 * 2);
        *to = make_float2(out[n][2 * h], out[n][2 * h + 1]);
      }
    }
  }
  __syncthreads();
  const bool alone = first_split == last_split;
  const int64_t heads_before = static_cast<int64_t>(row) * a.heads + first_query;
  // partial: [rows * heads][max_splits][kDim], then [rows * heads][max_splits][2] maxima and sums
  float* weights_at = a.partial + static_cast<int64_t>(a.rows) * a.heads * a.max_splits * kDim;
  for (int i = threadIdx.x; i < queries * kDim; i += kThreads) {
    const int q = i / kDim, d = i % kDim;
    float top = -INFINITY;
#pragma unroll
    for (int w = 0; w < kWarps; ++w) top = fmaxf(top, row_max[w][q]);
    float total = 0, value = 0;
#pragma unroll
    for (int w = 0; w < kWarps; ++w) {
      const float factor = exp2f(row_max[w][q] - top);  // 0 for a warp without pages
      total += factor * row_sum[w][q];
      value += factor * join[(w * kQueries + q) * kDim + d];
    }
    if (alone) {
      a.out[(heads_before + q) * kDim + d] = __float2bfloat16_rn(value / total);
    } else {
      a.partial[((heads_before + q) * a.max_splits + split) * kDim + d] = value;
      if (d == 0) {
        float* to = weights_at + ((heads_before + q) * a.max_splits + split) * 2;
        to[0] = top;
        to[1] = total;
      }
    }
  }
  if (alone) return;

  // Joins the splits in the block that arrives last.
  __threadfence();
  __syncthreads();
  if (threadIdx.x == 0) {
    int32_t* counter = a.arrived + heads_before;
    last_block = atomicAdd(counter, 1) == last_split - first_split;
    if (last_block) *counter = 0;
  }
  __syncthreads();
  if (!last_block) return;
  __threadfence();
  // The splits' maxima and sums first, one a thread, into the shared memory that `join` held.
  const int splits = last_split - first_split + 1;
  float2* weights = reinterpret_cast<float2*>(join);  // [queries][splits]; the host keeps splits within kMaxSplits
  for (int i = threadIdx.x; i < queries * splits; i += kThreads) {
    const int q = i / splits, s = first_split + i % splits;
    weights[i] = __ldcg(reinterpret_cast<const float2*>(weights_at) + (heads_before + q) * a.max_splits + s);
  }
  __syncthreads();
  for (int i = threadIdx.x; i < queries * kDim; i += kThreads) {
    const int q = i / kDim, d = i % kDim;
    const float* values = a.partial + ((heads_before + q) * a.max_splits + first_split) * kDim + d;
    float top = -INFINITY;
    for (int s = 0; s < splits; ++s) top = fmaxf(top, weights[q * splits + s].x);
    float total = 0, value = 0;
#pragma unroll 8
    for (int s = 0; s < splits; ++s) {
      const float2 w = weights[q * splits + s];
      const float factor = exp2f(w.x - top);
      total += factor * w.y;
      value += factor * __ldcg(values + static_cast<int64_t>(s) * kDim);
    }
    a.out[(heads_before + q) * kDim + d] = __float2bfloat16_rn(value / total);
  }
}

template <int kDim, int kWarps>
cudaError_t Run(const PagedAttentionArgs& a, cudaStream_t stream) {
  const int tiles = (a.heads / a.pages.kv_heads + kQueries - 1) / kQueries;
  return Launch(PagedAttentionKernel<kDim, kWarps>, dim3(a.pages.kv_heads * tiles, a.max_splits, a.rows), dim3(kWarps * 32),
                SharedBytes<kDim>(kWarps), stream, a);
}

template <int kDim>
cudaError_t RunWarps(const PagedAttentionArgs& a, cudaStream_t stream) {
  return a.warps == 8 ? Run<kDim, 8>(a, stream) : Run<kDim, 4>(a, stream);
}

}  // namespace

int64_t PagedAttentionScratch(int rows, int heads, int head_dim, int max_splits) {
  return static_cast<int64_t>(rows) * heads * max_splits * (head_dim + 2);
}

cudaError_t PagedAttention(const PagedAttentionArgs& args, cudaStream_t stream) {
  if (args.max_splits > kMaxSplits) return cudaErrorInvalidValue;
  switch (args.pages.head_dim) {
    case 64: return RunWarps<64>(args, stream);
    case 128: return RunWarps<128>(args, stream);
    case 256: return Run<256, 4>(args, stream);
    default: return cudaErrorInvalidValue;
  }
}

}  // namespace hone::rollout::cuda
