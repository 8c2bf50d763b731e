#include "rollout/engine/cuda/device.cuh"
#include "rollout/engine/cuda/gemv.h"

// A block takes a contiguous run of weight rows; its warps take pieces of rows in turn. Every warp keeps a ring of pieces
// in shared memory that bulk copies fill, so that loads never wait for arithmetic, and so that the ring of the next kernel
// fills while this one ends: weights depend on nobody.

namespace hone::rollout::cuda {
namespace {

constexpr int kWarps = 8;
constexpr int kThreads = kWarps * 32;
constexpr int kStep = 256;        // numbers that a warp reads at once: 16 bytes a lane
constexpr int kMaxPiece = 1792;   // numbers of a row that one copy brings
constexpr int kStages = 3;        // pieces in flight a warp

__device__ __forceinline__ uint32_t SharedAddress(const void* p) { return static_cast<uint32_t>(__cvta_generic_to_shared(p)); }

__device__ __forceinline__ void InitBarrier(uint32_t barrier) {
  asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" ::"r"(barrier) : "memory");
}
__device__ __forceinline__ void PublishBarriers() {
  asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
  asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
}
// Starts a copy whose end `barrier` counts.
__device__ __forceinline__ void CopyBulk(uint32_t to, const void* from, uint32_t bytes, uint32_t barrier) {
  asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(barrier), "r"(bytes) : "memory");
  asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::"r"(to), "l"(from), "r"(bytes),
               "r"(barrier)
               : "memory");
}
__device__ __forceinline__ void WaitBarrier(uint32_t barrier, uint32_t parity) {
  uint32_t done = 0;
  while (done == 0) {
    asm volatile(
        "{\n .reg .pred p;\n mbarrier.try_wait.parity.shared::cta.b64 p, [%1], %2;\n selp.u32 %0, 1, 0, p;\n}"
        : "=r"(done)
        : "r"(barrier), "r"(parity)
        : "memory");
  }
}

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

// x, normalised when asked, into shared memory [rows][in].
template <int kRows>
__device__ void StageInput(const GemvArgs& a, Bf16* xs, float* scratch) {
#pragma unroll
  for (int m = 0; m < kRows; ++m) {
    const Bf16* x = a.x + static_cast<int64_t>(m) * a.in;
    float inverse = 1;
    if (a.norm != nullptr) {
      float squares = 0;
      for (int k = threadIdx.x * 8; k < a.in; k += kThreads * 8) {
        const uint4 v = *reinterpret_cast<const uint4*>(x + k);
        squares = Dot8(v, v, squares);
      }
      inverse = rsqrtf(BlockSum<kWarps>(squares, scratch) / static_cast<float>(a.in) + a.norm_eps);
      __syncthreads();
    }
    for (int k = threadIdx.x * 8; k < a.in; k += kThreads * 8) {
      uint4 v = *reinterpret_cast<const uint4*>(x + k);
      if (a.norm != nullptr) {
        const uint4 w = *reinterpret_cast<const uint4*>(a.norm + k);
        const auto scale = [&](uint32_t pair, uint32_t weights) {
          return Pack(ScaleNormed(Low(pair) * inverse, Low(weights), a.norm_offset),
                      ScaleNormed(High(pair) * inverse, High(weights), a.norm_offset));
        };
        v = make_uint4(scale(v.x, w.x), scale(v.y, w.y), scale(v.z, w.z), scale(v.w, w.w));
      }
      *reinterpret_cast<uint4*>(xs + m * a.in + k) = v;
    }
  }
  __syncthreads();
}

// How a kernel cuts its work; the same on host and device.
struct Cut {
  int pieces;        // of a weight row
  int piece;         // numbers of one, the last may be shorter
  int rows_a_block;  // output rows, at most
  int weight_rows;   // for each output row: 2 when gated

  __host__ __device__ Cut(const GemvArgs& a, int blocks) {
    pieces = (a.in + kMaxPiece - 1) / kMaxPiece;
    piece = ((a.in + pieces - 1) / pieces + kStep - 1) / kStep * kStep;
    pieces = (a.in + piece - 1) / piece;
    rows_a_block = (a.out + blocks - 1) / blocks;
    weight_rows = a.output == GemvOutput::kGated ? 2 : 1;
  }
  __host__ __device__ int RingBytes() const { return kWarps * kStages * piece * 2; }
  __host__ __device__ int SumBytes(int rows) const { return rows_a_block * weight_rows * pieces * rows * 4; }
};

template <int kRows, GemvOutput kOutput>
__device__ __forceinline__ void Write(const GemvArgs& a, int m, int n, float sum, float second) {
  const int64_t at = static_cast<int64_t>(m) * a.out + n;
  if constexpr (kOutput == GemvOutput::kGated) {
    static_cast<Bf16*>(a.y)[at] = __float2bfloat16_rn(Gated(Round(sum), Round(second), a.gelu));
  } else if constexpr (kOutput == GemvOutput::kLogits) {
    static_cast<float*>(a.y)[at] = sum;
  } else if constexpr (kOutput == GemvOutput::kAdd) {
    Bf16* y = static_cast<Bf16*>(a.y) + at;
    *y = __float2bfloat16_rn(__bfloat162float(*y) + Round(sum));
  } else {
    const float bias = a.bias == nullptr ? 0.0f : __bfloat162float(a.bias[n]);
    static_cast<Bf16*>(a.y)[at] = __float2bfloat16_rn(sum + bias);
  }
}

template <int kRows, GemvOutput kOutput>
__global__ void __launch_bounds__(kThreads, 2) GemvKernel(const GemvArgs a) {
  extern __shared__ __align__(128) unsigned char shared[];
  __shared__ __align__(8) uint64_t barriers[kWarps][kStages];
  __shared__ float scratch[kWarps];
  constexpr int kWeightRows = kOutput == GemvOutput::kGated ? 2 : 1;
  const Cut cut(a, gridDim.x);
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  const int first_row = static_cast<int>(static_cast<int64_t>(a.out) * blockIdx.x / gridDim.x);
  const int rows = static_cast<int>(static_cast<int64_t>(a.out) * (blockIdx.x + 1) / gridDim.x) - first_row;
  const int items = rows * kWeightRows * cut.pieces;  // (row, weight row, piece), pieces fastest
  const uint32_t ring = SharedAddress(shared) + warp * kStages * cut.piece * 2;
  float* sums = reinterpret_cast<float*>(shared + cut.RingBytes());  // [items][kRows]
  Bf16* xs = reinterpret_cast<Bf16*>(shared + cut.RingBytes() + (cut.SumBytes(kRows) + 15) / 16 * 16);

  const auto copy = [&](int item, int stage) {
    const int piece = item % cut.pieces, weight_row = item / cut.pieces;
    const int64_t row = first_row + weight_row / kWeightRows + static_cast<int64_t>(weight_row % kWeightRows) * a.out;
    const int begin = piece * cut.piece, count = min(cut.piece, a.in - begin);
    CopyBulk(ring + stage * cut.piece * 2, a.weight + row * a.in + begin, count * 2, SharedAddress(&barriers[warp][stage]));
  };
  if (lane == 0) {
    for (int s = 0; s < kStages; ++s) InitBarrier(SharedAddress(&barriers[warp][s]));
    PublishBarriers();
    for (int s = 0; s < kStages; ++s) {
      if (warp + s * kWarps < items) copy(warp + s * kWarps, s);
    }
  }
  LetNextKernelStart();
  WaitForEarlierKernels();
  StageInput<kRows>(a, xs, scratch);  // its barriers make the warps' initialised ones visible, too

  int stage = 0;
  uint32_t parity = 0;
  for (int item = warp; item < items; item += kWarps) {
    WaitBarrier(SharedAddress(&barriers[warp][stage]), parity);
    const int begin = item % cut.pieces * cut.piece, count = min(cut.piece, a.in - begin);
    const Bf16* weights = reinterpret_cast<const Bf16*>(shared) + (warp * kStages + stage) * cut.piece;
    float even[kRows] = {}, odd[kRows] = {};  // two chains of additions, for speed
    const auto add = [&](int k, float(&to)[kRows]) {
      const uint4 w = *reinterpret_cast<const uint4*>(weights + k);
#pragma unroll
      for (int m = 0; m < kRows; ++m) to[m] = Dot8(w, *reinterpret_cast<const uint4*>(xs + m * a.in + begin + k), to[m]);
    };
#pragma unroll 2
    for (int k = lane * 8; k < count; k += 2 * kStep) {
      add(k, even);
      if (k + kStep < count) add(k + kStep, odd);
    }
    __syncwarp();
    if (lane == 0 && item + kStages * kWarps < items) copy(item + kStages * kWarps, stage);
#pragma unroll
    for (int m = 0; m < kRows; ++m) {
      const float whole = WarpSum(even[m] + odd[m]);
      if (lane == 0) sums[item * kRows + m] = whole;
    }
    if (++stage == kStages) {
      stage = 0;
      parity ^= 1;
    }
  }
  __syncthreads();
  for (int i = threadIdx.x; i < rows * kRows; i += kThreads) {
    const int row = i / kRows, m = i % kRows;
    float total[kWeightRows] = {};
#pragma unroll
    for (int r = 0; r < kWeightRows; ++r) {
      for (int p = 0; p < cut.pieces; ++p) total[r] += sums[((row * kWeightRows + r) * cut.pieces + p) * kRows + m];
    }
    Write<kRows, kOutput>(a, m, first_row + row, total[0], total[kWeightRows - 1]);
  }
}

template <int kRows, GemvOutput kOutput>
cudaError_t Run(const GemvArgs& a, cudaStream_t stream) {
  const int blocks = min(a.out, a.resident * a.processors);
  const Cut cut(a, blocks);
  const size_t shared = cut.RingBytes() + (cut.SumBytes(kRows) + 15) / 16 * 16 + static_cast<size_t>(kRows) * a.in * sizeof(Bf16);
  return Launch(GemvKernel<kRows, kOutput>, dim3(blocks), dim3(kThreads), shared, stream, a);
}

template <int kRows>
cudaError_t RunRows(const GemvArgs& a, cudaStream_t stream) {
  switch (a.output) {
    case GemvOutput::kStore: return Run<kRows, GemvOutput::kStore>(a, stream);
    case GemvOutput::kAdd: return Run<kRows, GemvOutput::kAdd>(a, stream);
    case GemvOutput::kGated: return Run<kRows, GemvOutput::kGated>(a, stream);
    case GemvOutput::kLogits: return Run<kRows, GemvOutput::kLogits>(a, stream);
  }
  return cudaErrorInvalidValue;
}

}  // namespace

cudaError_t Gemv(const GemvArgs& args, cudaStream_t stream) {
  switch (args.rows) {
    case 1: return RunRows<1>(args, stream);
    case 2: return RunRows<2>(args, stream);
    case 4: return RunRows<4>(args, stream);
    default: return cudaErrorInvalidValue;
  }
}

}  // namespace hone::rollout::cuda
