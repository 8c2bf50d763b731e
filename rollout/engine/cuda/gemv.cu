#include "rollout/engine/cuda/device.cuh"
#include "rollout/engine/cuda/gemv.h"

namespace hone::rollout::cuda HONE_HALF_NAMESPACE {
namespace {

constexpr int kWarps = 8;
constexpr int kThreads = kWarps * 32;
constexpr int kStep = 256;    // numbers of a weight row that a warp reads at once: 16 bytes a lane
constexpr int kUnroll = 6;    // steps in flight
constexpr int kPairRows = 2;  // weight rows a warp works on together

__device__ __forceinline__ uint4 LoadWeights(const Half* at) {
  uint4 v;
  asm volatile("ld.global.nc.L1::no_allocate.L2::256B.v4.u32 {%0, %1, %2, %3}, [%4];"
               : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w)
               : "l"(at));
  return v;
}

// x, normalised when asked, into shared memory [rows][padded], zeros behind `in`.
template <int kRows>
__device__ void StageInput(const GemvArgs& a, Half* xs, int padded, float* scratch) {
#pragma unroll
  for (int m = 0; m < kRows; ++m) {
    const Half* x = a.x + static_cast<int64_t>(m) * a.in;
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
    for (int k = threadIdx.x * 8; k < padded; k += kThreads * 8) {
      uint4 v = make_uint4(0, 0, 0, 0);
      if (k < a.in) {
        v = *reinterpret_cast<const uint4*>(x + k);
        if (a.norm != nullptr) {
          const uint4 w = *reinterpret_cast<const uint4*>(a.norm + k);
          const auto scale = [&](uint32_t pair, uint32_t weights) {
            return Pack(ScaleNormed(Low(pair) * inverse, Low(weights), a.norm_offset),
                        ScaleNormed(High(pair) * inverse, High(weights), a.norm_offset));
          };
          v = make_uint4(scale(v.x, w.x), scale(v.y, w.y), scale(v.z, w.z), scale(v.w, w.w));
        }
      }
      *reinterpret_cast<uint4*>(xs + m * padded + k) = v;
    }
  }
  __syncthreads();
}

template <int kRows, GemvOutput kOutput>
__device__ __forceinline__ void Write(const GemvArgs& a, int task, const float (&sum)[kPairRows][kRows]) {
#pragma unroll
  for (int m = 0; m < kRows; ++m) {
    const int64_t row = static_cast<int64_t>(m) * a.out;
    if constexpr (kOutput == GemvOutput::kGated) {
      static_cast<Half*>(a.y)[row + task] = FromFloat(Gated(Round(sum[0][m]), Round(sum[1][m]), a.gelu));
    } else {
#pragma unroll
      for (int r = 0; r < kPairRows; ++r) {
        const int n = task * kPairRows + r;
        if (n >= a.out) continue;
        if constexpr (kOutput == GemvOutput::kLogits) {
          static_cast<float*>(a.y)[row + n] = sum[r][m];
        } else if constexpr (kOutput == GemvOutput::kAdd) {
          Half* y = static_cast<Half*>(a.y) + row + n;
          *y = FromFloat(ToFloat(*y) + Round(sum[r][m]));
        } else {
          const float bias = a.bias == nullptr ? 0.0f : ToFloat(a.bias[n]);
          static_cast<Half*>(a.y)[row + n] = FromFloat(sum[r][m] + bias);
        }
      }
    }
  }
}

template <int kRows, GemvOutput kOutput>
__global__ void __launch_bounds__(kThreads, kRows == 1 ? 3 : 2) GemvKernel(const GemvArgs a) {
  extern __shared__ __align__(16) unsigned char shared[];
  __shared__ float scratch[kWarps];
  __shared__ float parts[kWarps][kPairRows][kRows];
  Half* xs = reinterpret_cast<Half*>(shared);
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  const int steps = (a.in + kStep - 1) / kStep, padded = steps * kStep;
  const int per_part = (steps + a.split - 1) / a.split, part = warp % a.split;
  const int begin = min(part * per_part, steps), end = min(begin + per_part, steps);
  const int tasks = kOutput == GemvOutput::kGated ? a.out : (a.out + kPairRows - 1) / kPairRows;
  const int block_tasks = kWarps / a.split, stride = gridDim.x * block_tasks;

  uint4 w[kPairRows][kUnroll];
  const auto load = [&](int task, int first) {
#pragma unroll
    for (int r = 0; r < kPairRows; ++r) {
      int n = kOutput == GemvOutput::kGated ? task + r * a.out : task * kPairRows + r;
      if (kOutput != GemvOutput::kGated) n = min(n, a.out - 1);
      const Half* row = a.weight + static_cast<int64_t>(n) * a.in;
#pragma unroll
      for (int u = 0; u < kUnroll; ++u) {
        const int k = (first + u) * kStep + lane * 8;
        w[r][u] = first + u < end && k < a.in && task < tasks ? LoadWeights(row + k) : make_uint4(0, 0, 0, 0);
      }
    }
  };

  int task = blockIdx.x * block_tasks + warp / a.split;
  load(task, begin);
  LetNextKernelStart();
  WaitForEarlierKernels();
  StageInput<kRows>(a, xs, padded, scratch);

  const int rounds = (tasks + stride - 1) / stride;
  for (int round = 0; round < rounds; ++round) {
    float sum[kPairRows][kRows] = {};
    for (int first = begin;; ) {
#pragma unroll
      for (int u = 0; u < kUnroll; ++u) {
        if (first + u < end) {
          const int k = (first + u) * kStep + lane * 8;
#pragma unroll
          for (int m = 0; m < kRows; ++m) {
            const uint4 x = *reinterpret_cast<const uint4*>(xs + m * padded + k);
#pragma unroll
            for (int r = 0; r < kPairRows; ++r) sum[r][m] = Dot8(w[r][u], x, sum[r][m]);
          }
        }
      }
      first += kUnroll;
      if (first >= end) break;
      load(task, first);
    }
    const int done = task;
    task += stride;
    if (round + 1 < rounds) load(task, begin);
#pragma unroll
    for (int r = 0; r < kPairRows; ++r) {
#pragma unroll
      for (int m = 0; m < kRows; ++m) sum[r][m] = WarpSum(sum[r][m]);
    }
    if (a.split > 1) {
      if (lane == 0) {
#pragma unroll
        for (int r = 0; r < kPairRows; ++r) {
#pragma unroll
          for (int m = 0; m < kRows; ++m) parts[warp][r][m] = sum[r][m];
        }
      }
      __syncthreads();
      if (part == 0) {
        for (int s = 1; s < a.split; ++s) {
#pragma unroll
          for (int r = 0; r < kPairRows; ++r) {
#pragma unroll
            for (int m = 0; m < kRows; ++m) sum[r][m] += parts[warp + s][r][m];
          }
        }
      }
      __syncthreads();
    }
    if (lane == 0 && part == 0 && done < tasks) Write<kRows, kOutput>(a, done, sum);
  }
}

template <int kRows, GemvOutput kOutput>
cudaError_t Run(GemvArgs& a, cudaStream_t stream) {
  const int tasks = kOutput == GemvOutput::kGated ? a.out : (a.out + kPairRows - 1) / kPairRows;
  const int resident = min(a.resident, kRows == 1 ? 3 : 2) * a.processors;
  a.split = 1;
  while (a.split < 4 && tasks * a.split * 2 <= resident * kWarps && a.in / (a.split * 2) >= kStep) a.split *= 2;
  const int block_tasks = kWarps / a.split;
  const int blocks = min((tasks + block_tasks - 1) / block_tasks, resident);
  const size_t shared = static_cast<size_t>(kRows) * ((a.in + kStep - 1) / kStep * kStep) * sizeof(Half);
  return Launch(GemvKernel<kRows, kOutput>, dim3(blocks), dim3(kThreads), shared, stream, a);
}

template <int kRows>
cudaError_t RunRows(GemvArgs& a, cudaStream_t stream) {
  switch (a.output) {
    case GemvOutput::kStore: return Run<kRows, GemvOutput::kStore>(a, stream);
    case GemvOutput::kAdd: return Run<kRows, GemvOutput::kAdd>(a, stream);
    case GemvOutput::kGated: return Run<kRows, GemvOutput::kGated>(a, stream);
    case GemvOutput::kLogits: return Run<kRows, GemvOutput::kLogits>(a, stream);
  }
  return cudaErrorInvalidValue;
}

}  // namespace

cudaError_t Gemv(GemvArgs args, cudaStream_t stream) {
  switch (args.rows) {
    case 1: return RunRows<1>(args, stream);
    case 2: return RunRows<2>(args, stream);
    case 4: return RunRows<4>(args, stream);
    default: return cudaErrorInvalidValue;
  }
}

}  // namespace hone::rollout::cuda HONE_HALF_NAMESPACE
