#include "rollout/engine/cuda/device.cuh"
#include "rollout/engine/cuda/rotate.cuh"
#include "rollout/engine/cuda/rows.h"

namespace hone::rollout::cuda HONE_HALF_NAMESPACE {
namespace {

constexpr int kThreads = 256;
constexpr int kWarps = kThreads / 32;

__global__ void __launch_bounds__(kThreads) EmbedKernel(const EmbedArgs a) {
  LetNextKernelStart();
  WaitForEarlierKernels();
  const int row = blockIdx.x;
  const int source = a.sources[row];
  const int id = max(0, source >= 0 ? source : a.draws[-1 - source].id);
  const float scale = Round(a.scale);
  const Half* from = a.table + static_cast<int64_t>(id) * a.width;
  Half* to = a.out + static_cast<int64_t>(row) * a.width;
  for (int k = threadIdx.x * 8; k < a.width; k += kThreads * 8) {
    uint4 v = *reinterpret_cast<const uint4*>(from + k);
    if (a.scale != 1) {
      const auto scaled = [&](uint32_t pair) { return Pack(Low(pair) * scale, High(pair) * scale); };
      v = make_uint4(scaled(v.x), scaled(v.y), scaled(v.z), scaled(v.w));
    }
    *reinterpret_cast<uint4*>(to + k) = v;
  }
}

// Eight numbers of a row in fp32.
struct Eight {
  float v[8];
  __device__ explicit Eight(uint4 p) : v{Low(p.x), High(p.x), Low(p.y), High(p.y), Low(p.z), High(p.z), Low(p.w), High(p.w)} {}
  __device__ uint4 Packed() const { return make_uint4(Pack(v[0], v[1]), Pack(v[2], v[3]), Pack(v[4], v[5]), Pack(v[6], v[7])); }
  // Adds the squares, in the order of gemv.cu's normalisation: the two give the same bits.
  __device__ float AddSquares(float sum) const {
#pragma unroll
    for (int i = 0; i < 8; ++i) sum = fmaf(v[i], v[i], sum);
    return sum;
  }
};

constexpr int kMaxChunks = 8;  // of 2048 numbers a row

// Everything is read before anything is written, so that the reads wait together.
template <int kChunks>
__global__ void __launch_bounds__(kThreads) AddNormKernel(const AddNormArgs a) {
  __shared__ float scratch[2][kWarps];
  const int64_t row = static_cast<int64_t>(blockIdx.x) * a.width;
  const auto at = [](int c) { return (c * kThreads + static_cast<int>(threadIdx.x)) * 8; };
  const auto read = [&](const Half* from, uint4 (&to)[kChunks]) {
#pragma unroll
    for (int c = 0; c < kChunks; ++c) to[c] = at(c) < a.width ? *reinterpret_cast<const uint4*>(from + at(c)) : make_uint4(0, 0, 0, 0);
  };
  LetNextKernelStart();
  uint4 norm[kChunks], kept[kChunks], delta[kChunks];
  if (a.norm != nullptr) read(a.norm, norm);
  WaitForEarlierKernels();
  read(a.x + row, kept);
  if (a.delta != nullptr) read(a.delta + row, delta);
  float inverse_delta = 0;
  if (a.delta_norm != nullptr) {
    float squares = 0;
#pragma unroll
    for (int c = 0; c < kChunks; ++c) squares = Eight(delta[c]).AddSquares(squares);
    inverse_delta = rsqrtf(BlockSum<kWarps>(squares, scratch[0]) / static_cast<float>(a.width) + a.norm_eps);
  }
  float squares = 0;
#pragma unroll
  for (int c = 0; c < kChunks; ++c) {
    Eight x(kept[c]);
    if (a.delta != nullptr && at(c) < a.width) {
      Eight d(delta[c]);
      if (a.delta_norm != nullptr) {
        const Eight w(*reinterpret_cast<const uint4*>(a.delta_norm + at(c)));
#pragma unroll
        for (int i = 0; i < 8; ++i) d.v[i] = ScaleNormed(d.v[i] * inverse_delta, w.v[i], a.norm_offset);
      }
#pragma unroll
      for (int i = 0; i < 8; ++i) x.v[i] = Round(x.v[i] + d.v[i]);
      kept[c] = x.Packed();
      *reinterpret_cast<uint4*>(a.x + row + at(c)) = kept[c];
    }
    squares = x.AddSquares(squares);
  }
  if (a.norm == nullptr) return;
  const float inverse = rsqrtf(BlockSum<kWarps>(squares, scratch[1]) / static_cast<float>(a.width) + a.norm_eps);
#pragma unroll
  for (int c = 0; c < kChunks; ++c) {
    if (at(c) >= a.width) continue;
    Eight x(kept[c]);
    const Eight w(norm[c]);
#pragma unroll
    for (int i = 0; i < 8; ++i) x.v[i] = ScaleNormed(x.v[i] * inverse, w.v[i], a.norm_offset);
    *reinterpret_cast<uint4*>(a.out + row + at(c)) = x.Packed();
  }
}

__global__ void __launch_bounds__(kThreads) GateKernel(const GateArgs a) {
  LetNextKernelStart();
  WaitForEarlierKernels();
  const int row = blockIdx.y;
  const int k = (blockIdx.x * kThreads + threadIdx.x) * 8;
  if (k >= a.width) return;
  const Half* gate_up = a.gate_up + static_cast<int64_t>(row) * 2 * a.width;
  Eight g(*reinterpret_cast<const uint4*>(gate_up + k));
  const Eight u(*reinterpret_cast<const uint4*>(gate_up + a.width + k));
#pragma unroll
  for (int i = 0; i < 8; ++i) g.v[i] = Gated(g.v[i], u.v[i], a.gelu);
  *reinterpret_cast<uint4*>(a.out + static_cast<int64_t>(row) * a.width + k) = g.Packed();
}

// One warp a head: queries, then keys, then values (which are only copied).
template <int kDim>
__global__ void __launch_bounds__(kThreads) RotateToPagesKernel(const RotateToPagesArgs a) {
  LetNextKernelStart();
  WaitForEarlierKernels();
  const int row = blockIdx.x;
  const int kv_heads = a.pages.kv_heads, all = a.heads + 2 * kv_heads;
  const int position = a.positions[row], slot = a.slots[row];
  Half* qkv = a.qkv + static_cast<int64_t>(row) * all * kDim;
  const int64_t page = slot / kPagePositions, within = slot % kPagePositions;
  for (int head = threadIdx.x / 32; head < all; head += kWarps) {
    Half* in = qkv + head * kDim;
    const bool query = head < a.heads, value = head >= a.heads + kv_heads;
    float low[kDim / 64], high[kDim / 64];
    if (value) {
      LoadHead<kDim>(in, low, high);
    } else {
      RotateHead<kDim>(in, query ? a.rotate.query_norm : a.rotate.key_norm, a.rotate, position, low, high);
    }
    Half* to = nullptr;
    if (!query && slot >= 0) {
      const int64_t part = value ? kv_heads + (head - a.heads - kv_heads) : head - a.heads;
      to = a.pages.data + ((page * 2 * kv_heads + part) * kPagePositions + within) * kDim;
    }
    if (!value) StoreHead<kDim>(in, low, high);
    if (to != nullptr) StoreHead<kDim>(to, low, high);
  }
}

__global__ void __launch_bounds__(kThreads) GatherKernel(const GatherArgs a) {
  LetNextKernelStart();
  WaitForEarlierKernels();
  const int dim = a.pages.head_dim, kv_heads = a.pages.kv_heads, row_width = kv_heads * dim;
  const int64_t slot = a.slots[blockIdx.x];
  const int64_t page = slot / kPagePositions, within = slot % kPagePositions;
  for (int k = threadIdx.x * 8; k < 2 * row_width; k += kThreads * 8) {
    const int part = k / dim, d = k % dim;  // part: key heads, then value heads
    const uint4 v = *reinterpret_cast<const uint4*>(a.pages.data + ((page * 2 * kv_heads + part) * kPagePositions + within) * dim + d);
    Half* to = k < row_width ? a.keys + k : a.values + (k - row_width);
    *reinterpret_cast<uint4*>(to + static_cast<int64_t>(blockIdx.x) * row_width) = v;
  }
}

__global__ void __launch_bounds__(kThreads) CopyPagesKernel(const CopyPagesArgs a) {
  LetNextKernelStart();
  WaitForEarlierKernels();
  char* layer = static_cast<char*>(a.data) + blockIdx.y * a.layer_bytes;
  const char* from = layer + a.from_to[2 * blockIdx.x] * a.page_bytes;
  char* to = layer + a.from_to[2 * blockIdx.x + 1] * a.page_bytes;
  for (int64_t k = threadIdx.x * 16; k < a.page_bytes; k += kThreads * 16) {
    *reinterpret_cast<uint4*>(to + k) = *reinterpret_cast<const uint4*>(from + k);
  }
}

}  // namespace

cudaError_t Embed(const EmbedArgs& args, cudaStream_t stream) {
  return Launch(EmbedKernel, dim3(args.rows), dim3(kThreads), 0, stream, args);
}

cudaError_t AddNorm(const AddNormArgs& args, cudaStream_t stream) {
  const int chunks = (args.width + kThreads * 8 - 1) / (kThreads * 8);
  if (chunks > kMaxChunks) return cudaErrorInvalidValue;
  const auto kernel = chunks == 1 ? AddNormKernel<1> : chunks == 2 ? AddNormKernel<2> : chunks <= 4 ? AddNormKernel<4> : AddNormKernel<kMaxChunks>;
  return Launch(kernel, dim3(args.rows), dim3(kThreads), 0, stream, args);
}

cudaError_t Gate(const GateArgs& args, cudaStream_t stream) {
  return Launch(GateKernel, dim3((args.width + kThreads * 8 - 1) / (kThreads * 8), args.rows), dim3(kThreads), 0, stream, args);
}

cudaError_t RotateToPages(const RotateToPagesArgs& args, cudaStream_t stream) {
  switch (args.pages.head_dim) {
    case 64: return Launch(RotateToPagesKernel<64>, dim3(args.rows), dim3(kThreads), 0, stream, args);
    case 128: return Launch(RotateToPagesKernel<128>, dim3(args.rows), dim3(kThreads), 0, stream, args);
    case 256: return Launch(RotateToPagesKernel<256>, dim3(args.rows), dim3(kThreads), 0, stream, args);
    default: return cudaErrorInvalidValue;
  }
}

cudaError_t GatherFromPages(const GatherArgs& args, cudaStream_t stream) {
  return Launch(GatherKernel, dim3(args.count), dim3(kThreads), 0, stream, args);
}

cudaError_t CopyPages(const CopyPagesArgs& args, cudaStream_t stream) {
  return Launch(CopyPagesKernel, dim3(args.count, args.layers), dim3(kThreads), 0, stream, args);
}

}  // namespace hone::rollout::cuda HONE_HALF_NAMESPACE
