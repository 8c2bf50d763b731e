#include "rollout/engine/cuda/device.cuh"
#include "rollout/engine/cuda/page_attention.cuh"
#include "rollout/engine/cuda/paged_attention.h"
#include "rollout/engine/cuda/rotate.cuh"

namespace hone::rollout::cuda HONE_HALF_NAMESPACE {
namespace {

constexpr int kStages = 2;    // pages in flight a warp

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
  constexpr int kPageBytes = kPagePositions * kDim * 2, kThreads = kWarps * 32;
  unsigned char* shared = DynamicShared();
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
    const Half* keys = a.pages.data + (static_cast<int64_t>(table[page]) * 2 * kv_heads + kv) * kPagePositions * kDim;
    FetchPage<kDim>(keys, static_cast<int64_t>(kv_heads) * kPagePositions * kDim, page * kPagePositions, begin, end,
                    ring_at + stage * 2 * kPageBytes);
  };
  // Pages without the new token were written by earlier steps: they may be fetched before the projection has ended.
  const int own_page = position / kPagePositions;
  int page = first_page + warp;
  const bool early = page <= last_page && page != own_page && !a.prepared;
  if (early) fetch(page, 0);
  CommitCopies();

  WaitForEarlierKernels();
  const Half* qkv = a.qkv + static_cast<int64_t>(row) * (a.heads + 2 * kv_heads) * kDim;
  if (split == last_split && !a.prepared) {  // this block's range holds the new token
    const int64_t own = (static_cast<int64_t>(table[own_page]) * 2 * kv_heads + kv) * kPagePositions + position % kPagePositions;
    Half* key_to = a.pages.data + own * kDim;
    if (warp == 0) {
      float low[kDim / 64], high[kDim / 64];
      RotateHead<kDim>(qkv + (a.heads + kv) * kDim, a.rotate.key_norm, a.rotate, position, low, high);
      StoreHead<kDim>(key_to, low, high);
    } else if (warp == 1) {
      Half* value_to = key_to + static_cast<int64_t>(kv_heads) * kPagePositions * kDim;
      const Half* value = qkv + (a.heads + kv_heads + kv) * kDim;
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
      const int d = PairAt<kDim>(lane, i);
      StoreInTile<kDim>(query_tile, q, d, low[i]);
      StoreInTile<kDim>(query_tile, q, d + kDim / 2, high[i]);
    }
  }
  __threadfence_block();
  __syncthreads();

  const float scale = a.scale * 1.4426950408889634f;  // scores in powers of two
  PageAttention<kDim> attention;
  if (!early && page <= last_page) fetch(page, 0);
  CommitCopies();
  int stage = 0;
  for (; page <= last_page; page += kWarps, stage ^= 1) {
    if (page + kWarps <= last_page) fetch(page + kWarps, stage ^ 1);
    CommitCopies();
    WaitForCopies<1>();
    __syncwarp();
    const uint32_t keys_at = ring_at + stage * 2 * kPageBytes;
    attention.Add(queries_at, keys_at, keys_at + kPageBytes, page * kPagePositions, begin, end, scale);
    __syncwarp();
  }

  // Joins the warps: each leaves its rows in shared memory, then every thread adds up its own numbers.
  WaitForCopies<0>();
  __syncthreads();
  float* join = reinterpret_cast<float*>(shared + kQueries * kDim * 2);  // [kWarps][kQueries][kDim]
  attention.Leave(queries, join + warp * kQueries * kDim, row_max[warp], row_sum[warp]);
  __syncthreads();
  const bool alone = first_split == last_split;
  const int64_t heads_before = static_cast<int64_t>(row) * a.heads + first_query;
  // partial: [rows * heads][max_splits][kDim], then [rows * heads][max_splits][2] maxima and sums
  float* weights_at = a.partial + static_cast<int64_t>(a.rows) * a.heads * a.max_splits * kDim;
  for (int i = threadIdx.x; i < queries * kDim; i += kThreads) {
    const int q = i / kDim, d = i % kDim;
    const auto [value, top, total] = JoinWarps<kDim, kWarps>(join, row_max, row_sum, q, d);
    if (alone) {
      a.out[(heads_before + q) * kDim + d] = FromFloat(value / total);
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
    a.out[(heads_before + q) * kDim + d] = FromFloat(value / total);
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
  switch (a.warps) {
    case 3: return Run<kDim, 3>(a, stream);
    case 4: return Run<kDim, 4>(a, stream);
    case 8: return Run<kDim, 8>(a, stream);
    default: return cudaErrorInvalidValue;
  }
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

}  // namespace hone::rollout::cuda HONE_HALF_NAMESPACE
