#include "policy/model/cuda/row_kernels.h"

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_runtime.h>

#include <type_traits>

namespace hone::policy::cuda {
namespace {

using Bf16 = __nv_bfloat16;
using Fp16 = __half;

constexpr int kThreads = 256;
constexpr int kWarps = kThreads / 32;
constexpr int kPartialBlocks = 792;  // six per processor of an H200

// Sixteen bits: bf16 or IEEE's half precision.
__device__ __forceinline__ float ToFloat(Bf16 x) { return __bfloat162float(x); }
__device__ __forceinline__ float ToFloat(Fp16 x) { return __half2float(x); }
template <class Half>
__device__ __forceinline__ Half FromFloat(float x) {
  if constexpr (std::is_same_v<Half, Bf16>) {
    return __float2bfloat16_rn(x);
  } else {
    return __float2half_rn(x);
  }
}
template <class Half>
__device__ __forceinline__ float Round(float x) {
  return ToFloat(FromFloat<Half>(x));
}
// Two neighbours in a word.
template <class Half>
__device__ __forceinline__ float2 Unpack(uint32_t word) {
  if constexpr (std::is_same_v<Half, Bf16>) {
    return {__uint_as_float(word << 16), __uint_as_float(word & 0xffff0000u)};
  } else {
    return __half22float2(*reinterpret_cast<const __half2*>(&word));
  }
}
template <class Half>
__device__ __forceinline__ uint32_t Pack(float low, float high) {
  if constexpr (std::is_same_v<Half, Bf16>) {
    const __nv_bfloat162 pair = __floats2bfloat162_rn(low, high);
    return *reinterpret_cast<const uint32_t*>(&pair);
  } else {
    const __half2 pair = __floats2half2_rn(low, high);
    return *reinterpret_cast<const uint32_t*>(&pair);
  }
}

// Eight neighbouring numbers.
struct Eight {
  float v[8];
};
template <class Half>
__device__ __forceinline__ Eight Load8(const Half* at) {
  const uint4 raw = *reinterpret_cast<const uint4*>(at);
  const uint32_t words[4] = {raw.x, raw.y, raw.z, raw.w};
  Eight out;
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    const float2 pair = Unpack<Half>(words[i]);
    out.v[2 * i] = pair.x, out.v[2 * i + 1] = pair.y;
  }
  return out;
}
template <class Half>
__device__ __forceinline__ void Store8(Half* at, const Eight& x) {
  uint32_t words[4];
#pragma unroll
  for (int i = 0; i < 4; ++i) words[i] = Pack<Half>(x.v[2 * i], x.v[2 * i + 1]);
  *reinterpret_cast<uint4*>(at) = make_uint4(words[0], words[1], words[2], words[3]);
}

__device__ __forceinline__ float WarpSum(float x) {
#pragma unroll
  for (int step = 16; step > 0; step /= 2) x += __shfl_xor_sync(0xffffffffu, x, step);
  return x;
}

// Sum over the block, to every thread.
__device__ float BlockSum(float x) {
  __shared__ float scratch[32];
  x = WarpSum(x);
  __syncthreads();
  if (threadIdx.x % 32 == 0) scratch[threadIdx.x / 32] = x;
  __syncthreads();
  float sum = 0;
  for (int w = 0; w < blockDim.x / 32; ++w) sum += scratch[w];
  return sum;
}

template <class Half>
__device__ __forceinline__ float Scaled(float normed, float weight, float offset) {
  return offset == 0 ? Round<Half>(normed) * weight : normed * (weight + offset);
}

// --- normalisation

template <class Half>
__global__ void RmsNormKernel(const Half* x, const Half* weight, float offset, float eps, int64_t dim, Half* y,
                              float* inverse) {
  const Half* row = x + blockIdx.x * dim;
  float squares = 0;
  for (int64_t i = threadIdx.x * 8; i < dim; i += blockDim.x * 8) {
    const Eight v = Load8(row + i);
#pragma unroll
    for (int k = 0; k < 8; ++k) squares += v.v[k] * v.v[k];
  }
  const float scale = rsqrtf(BlockSum(squares) / static_cast<float>(dim) + eps);
  if (threadIdx.x == 0) inverse[blockIdx.x] = scale;
  for (int64_t i = threadIdx.x * 8; i < dim; i += blockDim.x * 8) {
    Eight v = Load8(row + i);
    const Eight w = Load8(weight + i);
#pragma unroll
    for (int k = 0; k < 8; ++k) v.v[k] = Scaled<Half>(v.v[k] * scale, w.v[k], offset);
    Store8(y + blockIdx.x * dim + i, v);
  }
}

// dx = inverse * (g - x_hat * mean(g * x_hat)), g = dy * (weight + offset); dweight = sum over rows of dy * x_hat.
// A block holds a row in registers, kSteps * 8 numbers a thread.
template <class Half, int kSteps>
__global__ void __launch_bounds__(kThreads)
    RmsNormBackwardKernel(const Half* x, const Half* weight, const float* inverse, const Half* dy, float offset,
                          int64_t rows, int64_t dim, Half* dx, float* partial) {
  Eight sums[kSteps] = {};
  for (int64_t r = blockIdx.x; r < rows; r += gridDim.x) {
    const float scale = inverse[r];
    Eight hat[kSteps], g[kSteps];
    float dot = 0;
#pragma unroll
    for (int s = 0; s < kSteps; ++s) {
      const int64_t i = (s * kThreads + threadIdx.x) * 8;
      if (i >= dim) continue;
      hat[s] = Load8(x + r * dim + i);
      g[s] = Load8(dy + r * dim + i);
      const Eight w = Load8(weight + i);
#pragma unroll
      for (int k = 0; k < 8; ++k) {
        hat[s].v[k] *= scale;
        sums[s].v[k] += g[s].v[k] * hat[s].v[k];
        g[s].v[k] *= w.v[k] + offset;
        dot += g[s].v[k] * hat[s].v[k];
      }
    }
    dot = BlockSum(dot) / static_cast<float>(dim);
#pragma unroll
    for (int s = 0; s < kSteps; ++s) {
      const int64_t i = (s * kThreads + threadIdx.x) * 8;
      if (i >= dim) continue;
#pragma unroll
      for (int k = 0; k < 8; ++k) g[s].v[k] = scale * (g[s].v[k] - hat[s].v[k] * dot);
      Store8(dx + r * dim + i, g[s]);
    }
  }
  if (partial == nullptr) return;
#pragma unroll
  for (int s = 0; s < kSteps; ++s) {
    const int64_t i = (s * kThreads + threadIdx.x) * 8;
    if (i >= dim) continue;
    for (int k = 0; k < 8; ++k) partial[blockIdx.x * dim + i + k] = sums[s].v[k];
  }
}

// --- heads: normalisation and rotation, a warp to a head

constexpr int kPairs = 2;  // pairs of neighbours a lane holds in each half: head_dim up to 256

struct HeadRow {
  float low[kPairs][2], high[kPairs][2];
};

template <class Half>
__device__ __forceinline__ float2 LoadPair(const Half* at) {
  return Unpack<Half>(*reinterpret_cast<const uint32_t*>(at));
}
template <class Half>
__device__ __forceinline__ void StorePair(Half* at, float a, float b) {
  *reinterpret_cast<uint32_t*>(at) = Pack<Half>(a, b);
}

template <class Body>
__device__ __forceinline__ void ForPairs(int half, const Body& body) {
#pragma unroll
  for (int p = 0; p < kPairs; ++p) {
    const int i = (p * 32 + threadIdx.x % 32) * 2;
    if (i < half) body(p, i);
  }
}

template <class Half>
__device__ __forceinline__ HeadRow LoadHead(const Half* at, int half) {
  HeadRow row = {};
  ForPairs(half, [&](int p, int i) {
    const float2 a = LoadPair(at + i), b = LoadPair(at + half + i);
    row.low[p][0] = a.x, row.low[p][1] = a.y, row.high[p][0] = b.x, row.high[p][1] = b.y;
  });
  return row;
}

template <class Half>
__device__ __forceinline__ void StoreHead(Half* at, int half, const HeadRow& row) {
  ForPairs(half, [&](int p, int i) {
    StorePair(at + i, row.low[p][0], row.low[p][1]);
    StorePair(at + half + i, row.high[p][0], row.high[p][1]);
  });
}

__device__ __forceinline__ float Inverse(const HeadRow& row, int half, float eps) {
  float squares = 0;
#pragma unroll
  for (int p = 0; p < kPairs; ++p) {
    for (int k = 0; k < 2; ++k) squares += row.low[p][k] * row.low[p][k] + row.high[p][k] * row.high[p][k];
  }
  return rsqrtf(WarpSum(squares) / static_cast<float>(2 * half) + eps);
}

// sign 1 rotates, -1 turns back. Products are rounded like operators of sixteen bits round them.
template <class Half>
__device__ __forceinline__ void Rotate(HeadRow& row, const float* cos, const float* sin, int half, float sign) {
  ForPairs(half, [&](int p, int i) {
#pragma unroll
    for (int k = 0; k < 2; ++k) {
      const float c = Round<Half>(cos[i + k]), s = sign * Round<Half>(sin[i + k]), a = row.low[p][k],
                  b = row.high[p][k];
      row.low[p][k] = Round<Half>(Round<Half>(a * c) - Round<Half>(b * s));
      row.high[p][k] = Round<Half>(Round<Half>(b * c) + Round<Half>(a * s));
    }
  });
}

template <class Half>
__global__ void NormRotateKernel(const Half* qkv, const Half* query_norm, const Half* key_norm, const float* cos,
                                 const float* sin, RotateShape s, Half* y) {
  const int all = static_cast<int>(s.heads + 2 * s.kv_heads), half = static_cast<int>(s.head_dim / 2);
  const int64_t row = blockIdx.x * static_cast<int64_t>(kWarps) + threadIdx.x / 32;
  if (row >= s.tokens * all) return;
  const int64_t token = row / all;
  const int head = static_cast<int>(row % all);
  HeadRow v = LoadHead(qkv + row * s.head_dim, half);
  if (head < s.heads + s.kv_heads) {
    const Half* norm = head < s.heads ? query_norm : key_norm;
    if (norm != nullptr) {
      const float scale = Inverse(v, half, s.eps);
      ForPairs(half, [&](int p, int i) {
        const float2 a = LoadPair(norm + i), b = LoadPair(norm + half + i);
        v.low[p][0] = Round<Half>(Scaled<Half>(v.low[p][0] * scale, a.x, s.offset));
        v.low[p][1] = Round<Half>(Scaled<Half>(v.low[p][1] * scale, a.y, s.offset));
        v.high[p][0] = Round<Half>(Scaled<Half>(v.high[p][0] * scale, b.x, s.offset));
        v.high[p][1] = Round<Half>(Scaled<Half>(v.high[p][1] * scale, b.y, s.offset));
      });
    }
    Rotate<Half>(v, cos + token * half, sin + token * half, half, 1);
  }
  StoreHead(y + row * s.head_dim, half, v);
}

template <class Half>
__global__ void NormRotateBackwardKernel(const Half* qkv, const Half* query_norm, const Half* key_norm,
                                         const float* cos, const float* sin, const Half* dy, RotateShape s, Half* dqkv,
                                         float* partial) {
  __shared__ float shared[kWarps][256];
  const int all = static_cast<int>(s.heads + 2 * s.kv_heads), half = static_cast<int>(s.head_dim / 2);
  const int warp = threadIdx.x / 32;
  HeadRow sums[2] = {};  // of the query's and the key's norm
  for (int64_t row = blockIdx.x * static_cast<int64_t>(kWarps) + warp; row < s.tokens * all;
       row += gridDim.x * static_cast<int64_t>(kWarps)) {
    const int64_t token = row / all;
    const int head = static_cast<int>(row % all);
    HeadRow g = LoadHead(dy + row * s.head_dim, half);
    if (head < s.heads + s.kv_heads) {
      Rotate<Half>(g, cos + token * half, sin + token * half, half, -1);
      const int kind = head < s.heads ? 0 : 1;
      const Half* norm = kind == 0 ? query_norm : key_norm;
      if (norm != nullptr) {
        const HeadRow x = LoadHead(qkv + row * s.head_dim, half);
        const float scale = Inverse(x, half, s.eps);
        float dot = 0;
        HeadRow scaled = {};
        ForPairs(half, [&](int p, int i) {
          const float2 a = LoadPair(norm + i), b = LoadPair(norm + half + i);
          const float wl[2] = {a.x + s.offset, a.y + s.offset}, wh[2] = {b.x + s.offset, b.y + s.offset};
#pragma unroll
          for (int k = 0; k < 2; ++k) {
            scaled.low[p][k] = g.low[p][k] * wl[k];
            scaled.high[p][k] = g.high[p][k] * wh[k];
            dot += scaled.low[p][k] * x.low[p][k] + scaled.high[p][k] * x.high[p][k];
            sums[kind].low[p][k] += g.low[p][k] * x.low[p][k] * scale;
            sums[kind].high[p][k] += g.high[p][k] * x.high[p][k] * scale;
          }
        });
        dot = WarpSum(dot) * scale * scale / static_cast<float>(2 * half);
#pragma unroll
        for (int p = 0; p < kPairs; ++p) {
          for (int k = 0; k < 2; ++k) {
            g.low[p][k] = scale * (scaled.low[p][k] - x.low[p][k] * dot);
            g.high[p][k] = scale * (scaled.high[p][k] - x.high[p][k] * dot);
          }
        }
      }
    }
    StoreHead(dqkv + row * s.head_dim, half, g);
  }
  if (partial == nullptr) return;
  for (int kind = 0; kind < 2; ++kind) {
    ForPairs(half, [&](int p, int i) {
      for (int k = 0; k < 2; ++k) {
        shared[warp][i + k] = sums[kind].low[p][k];
        shared[warp][half + i + k] = sums[kind].high[p][k];
      }
    });
    __syncthreads();
    for (int i = threadIdx.x; i < s.head_dim; i += kThreads) {
      float sum = 0;
      for (int w = 0; w < kWarps; ++w) sum += shared[w][i];
      partial[(blockIdx.x * 2 + kind) * s.head_dim + i] = sum;
    }
    __syncthreads();
  }
}

// --- gated activation

// The activation and its slope.
__device__ __forceinline__ float2 Activate(float x, bool gelu) {
  if (gelu) {
    constexpr float kScale = 0.7978845608028654f, kCubic = 0.044715f;
    const float t = tanhf(kScale * (x + kCubic * x * x * x));
    return {0.5f * x * (1 + t), 0.5f * (1 + t) + 0.5f * x * (1 - t * t) * kScale * (1 + 3 * kCubic * x * x)};
  }
  const float sigmoid = 1.0f / (1.0f + __expf(-x));
  return {x * sigmoid, sigmoid * (1 + x * (1 - sigmoid))};
}

template <class Half>
__global__ void GatedKernel(const Half* gate_up, bool gelu, int64_t width, int64_t count, Half* y) {
  const int64_t at = (blockIdx.x * static_cast<int64_t>(kThreads) + threadIdx.x) * 8;
  if (at >= count) return;
  const int64_t row = at / width, column = at % width;
  const Eight gate = Load8(gate_up + row * 2 * width + column), up = Load8(gate_up + row * 2 * width + width + column);
  Eight out;
#pragma unroll
  for (int k = 0; k < 8; ++k) out.v[k] = Round<Half>(Activate(gate.v[k], gelu).x) * up.v[k];
  Store8(y + at, out);
}

template <class Half>
__global__ void GatedBackwardKernel(const Half* gate_up, const Half* dy, bool gelu, int64_t width, int64_t count,
                                    Half* dgate_up, Half* y) {
  const int64_t at = (blockIdx.x * static_cast<int64_t>(kThreads) + threadIdx.x) * 8;
  if (at >= count) return;
  const int64_t row = at / width, column = at % width, gate_at = row * 2 * width + column;
  const Eight gate = Load8(gate_up + gate_at), up = Load8(gate_up + gate_at + width), g = Load8(dy + at);
  Eight dgate, dup, out;
#pragma unroll
  for (int k = 0; k < 8; ++k) {
    const float2 a = Activate(gate.v[k], gelu);
    const float activated = Round<Half>(a.x);
    dgate.v[k] = g.v[k] * up.v[k] * a.y;
    dup.v[k] = g.v[k] * activated;
    out.v[k] = activated * up.v[k];
  }
  Store8(dgate_up + gate_at, dgate);
  Store8(dgate_up + gate_at + width, dup);
  if (y != nullptr) Store8(y + at, out);
}

// --- log-probabilities

constexpr int kVocabThreads = 1024;

// max, sum exp(z - max), sum exp(z - max) (z - max)
struct Softmax {
  float max = -INFINITY, sum = 0, weighted = 0;
  __device__ __forceinline__ void Join(const Softmax& o) {
    const float top = fmaxf(max, o.max);
    if (top == -INFINITY) return;
    const float a = max == -INFINITY ? 0 : max - top, b = o.max == -INFINITY ? 0 : o.max - top;
    const float ea = max == -INFINITY ? 0 : __expf(a), eb = o.max == -INFINITY ? 0 : __expf(b);
    weighted = ea * (weighted + sum * a) + eb * (o.weighted + o.sum * b);
    sum = ea * sum + eb * o.sum;
    max = top;
  }
};

__global__ void LogProbKernel(const float* logits, const int64_t* targets, float inverse_temperature, int64_t vocab,
                              float* log_probs, float* entropy, float* log_sums) {
  __shared__ Softmax warps[kVocabThreads / 32];
  const float* row = logits + blockIdx.x * vocab;
  Softmax own;
  for (int64_t i = threadIdx.x; i < vocab; i += kVocabThreads) {
    const float z = row[i] * inverse_temperature;
    if (z > own.max) {
      Softmax raised;
      raised.max = z;
      raised.sum = 1;
      raised.Join(own);
      own = raised;
    } else {
      const float d = z - own.max, e = __expf(d);
      own.sum += e;
      own.weighted += e * d;
    }
  }
  const auto reduce = [&] {
#pragma unroll
    for (int step = 16; step > 0; step /= 2) {
      Softmax other;
      other.max = __shfl_xor_sync(0xffffffffu, own.max, step);
      other.sum = __shfl_xor_sync(0xffffffffu, own.sum, step);
      other.weighted = __shfl_xor_sync(0xffffffffu, own.weighted, step);
      own.Join(other);
    }
  };
  reduce();
  if (threadIdx.x % 32 == 0) warps[threadIdx.x / 32] = own;
  __syncthreads();
  if (threadIdx.x >= 32) return;
  own = warps[threadIdx.x];
  reduce();
  if (threadIdx.x != 0) return;
  const float log_sum = own.max + logf(own.sum);
  log_sums[blockIdx.x] = log_sum;
  log_probs[blockIdx.x] = row[targets[blockIdx.x]] * inverse_temperature - log_sum;
  entropy[blockIdx.x] = logf(own.sum) - own.weighted / own.sum;
}

// Four numbers a thread where rows are aligned for it.
template <class Half, int kWide>
__global__ void LogProbBackwardKernel(const float* logits, const int64_t* targets, const float* log_sums,
                                      const float* entropy, const float* dlog_probs, const float* dentropy,
                                      float inverse_temperature, int64_t vocab, Half* dlogits) {
  constexpr int64_t kPerBlock = kThreads * kWide;
  const int64_t blocks = (vocab + kPerBlock - 1) / kPerBlock, row = blockIdx.x / blocks;
  const int64_t i = blockIdx.x % blocks * kPerBlock + threadIdx.x * kWide;
  if (i >= vocab) return;
  const float log_sum = log_sums[row], h = entropy[row], dl = dlog_probs[row], de = dentropy[row];
  const int64_t hit = targets[row] - i;
  float z[kWide], d[kWide];
  if constexpr (kWide == 4) {
    const float4 four = *reinterpret_cast<const float4*>(logits + row * vocab + i);
    z[0] = four.x, z[1] = four.y, z[2] = four.z, z[3] = four.w;
  } else {
    z[0] = logits[row * vocab + i];
  }
#pragma unroll
  for (int k = 0; k < kWide; ++k) {
    const float log_p = z[k] * inverse_temperature - log_sum, p = __expf(log_p);
    d[k] = (dl * ((hit == k ? 1.0f : 0.0f) - p) - de * p * (log_p + h)) * inverse_temperature;
  }
  Half* out = dlogits + row * vocab + i;
  if constexpr (kWide == 4) {
    *reinterpret_cast<uint2*>(out) = make_uint2(Pack<Half>(d[0], d[1]), Pack<Half>(d[2], d[3]));
  } else {
    *out = FromFloat<Half>(d[0]);
  }
}

// --- AdamW

template <class Half>
__global__ void AdamWKernel(AdamWArgs a) {
  const int64_t i = blockIdx.x * static_cast<int64_t>(kThreads) + threadIdx.x;
  if (i >= a.count) return;
  const float g = a.gradient[i] * a.gradient_scale;
  const float m = a.beta1 * a.exp_avg[i] + (1 - a.beta1) * g, v = a.beta2 * a.exp_avg_sq[i] + (1 - a.beta2) * g * g;
  const float w = a.master[i] * (1 - a.rate * a.weight_decay) -
                  a.rate / a.correction1 * m / (sqrtf(v) / a.correction2_root + a.epsilon);
  a.exp_avg[i] = m;
  a.exp_avg_sq[i] = v;
  a.master[i] = w;
  if (a.weight != nullptr) static_cast<Half*>(a.weight)[i] = FromFloat<Half>(w);
}

template <class Half>
const Half* In(const void* p) {
  return static_cast<const Half*>(p);
}
template <class Half>
Half* Out(void* p) {
  return static_cast<Half*>(p);
}
cudaStream_t On(void* stream) { return static_cast<cudaStream_t>(stream); }
unsigned Blocks(int64_t work, int64_t per_block) { return static_cast<unsigned>((work + per_block - 1) / per_block); }
unsigned PartialBlocks(int64_t work) { return static_cast<unsigned>(work < kPartialBlocks ? work : kPartialBlocks); }

// body(Half{}) with the type named.
template <class Body>
int With(HalfType type, const Body& body) {
  if (type == HalfType::kFp16) return body(Fp16{});
  return body(Bf16{});
}

}  // namespace

int RmsNorm(HalfType type, const void* x, const void* weight, float offset, float eps, int64_t rows, int64_t dim,
            void* y, float* inverse, void* stream) {
  if (rows == 0) return cudaSuccess;
  const int threads = dim >= 2048 ? 256 : dim >= 1024 ? 128 : 32;
  return With(type, [&](auto half) {
    using Half = decltype(half);
    RmsNormKernel<<<static_cast<unsigned>(rows), threads, 0, On(stream)>>>(In<Half>(x), In<Half>(weight), offset, eps,
                                                                           dim, Out<Half>(y), inverse);
    return cudaGetLastError();
  });
}

int64_t RmsNormPartials(int64_t rows) { return PartialBlocks(rows); }

int RmsNormBackward(HalfType type, const void* x, const void* weight, const float* inverse, const void* dy,
                    float offset, int64_t rows, int64_t dim, void* dx, float* dweight_partial, void* stream) {
  if (rows == 0) return cudaSuccess;
  return With(type, [&](auto half) {
    using Half = decltype(half);
    const auto run = [&](auto* kernel) {
      kernel<<<PartialBlocks(rows), kThreads, 0, On(stream)>>>(In<Half>(x), In<Half>(weight), inverse, In<Half>(dy),
                                                               offset, rows, dim, Out<Half>(dx), dweight_partial);
      return cudaGetLastError();
    };
    constexpr int64_t kStep = kThreads * 8;
    if (dim <= kStep) return run(RmsNormBackwardKernel<Half, 1>);
    if (dim <= 2 * kStep) return run(RmsNormBackwardKernel<Half, 2>);
    if (dim <= 4 * kStep) return run(RmsNormBackwardKernel<Half, 4>);
    return run(RmsNormBackwardKernel<Half, 8>);
  });
}

int NormRotate(HalfType type, const void* qkv, const void* query_norm, const void* key_norm, const float* cos,
               const float* sin, const RotateShape& s, void* y, void* stream) {
  if (s.tokens == 0) return cudaSuccess;
  return With(type, [&](auto half) {
    using Half = decltype(half);
    NormRotateKernel<<<Blocks(s.tokens * (s.heads + 2 * s.kv_heads), kWarps), kThreads, 0, On(stream)>>>(
        In<Half>(qkv), In<Half>(query_norm), In<Half>(key_norm), cos, sin, s, Out<Half>(y));
    return cudaGetLastError();
  });
}

int64_t NormRotatePartials(int64_t tokens) { return PartialBlocks(tokens) * 2; }

int NormRotateBackward(HalfType type, const void* qkv, const void* query_norm, const void* key_norm, const float* cos,
                       const float* sin, const void* dy, const RotateShape& s, void* dqkv, float* dnorm_partial,
                       void* stream) {
  if (s.tokens == 0) return cudaSuccess;
  return With(type, [&](auto half) {
    using Half = decltype(half);
    NormRotateBackwardKernel<<<static_cast<unsigned>(NormRotatePartials(s.tokens)), kThreads, 0, On(stream)>>>(
        In<Half>(qkv), In<Half>(query_norm), In<Half>(key_norm), cos, sin, In<Half>(dy), s, Out<Half>(dqkv),
        dnorm_partial);
    return cudaGetLastError();
  });
}

int Gated(HalfType type, const void* gate_up, bool gelu, int64_t rows, int64_t width, void* y, void* stream) {
  if (rows == 0) return cudaSuccess;
  return With(type, [&](auto half) {
    using Half = decltype(half);
    GatedKernel<<<Blocks(rows * width, kThreads * 8), kThreads, 0, On(stream)>>>(In<Half>(gate_up), gelu, width,
                                                                                 rows * width, Out<Half>(y));
    return cudaGetLastError();
  });
}

int GatedBackward(HalfType type, const void* gate_up, const void* dy, bool gelu, int64_t rows, int64_t width,
                  void* dgate_up, void* y, void* stream) {
  if (rows == 0) return cudaSuccess;
  return With(type, [&](auto half) {
    using Half = decltype(half);
    GatedBackwardKernel<<<Blocks(rows * width, kThreads * 8), kThreads, 0, On(stream)>>>(
        In<Half>(gate_up), In<Half>(dy), gelu, width, rows * width, Out<Half>(dgate_up), Out<Half>(y));
    return cudaGetLastError();
  });
}

int LogProbRows(const float* logits, const int64_t* targets, float inverse_temperature, int64_t rows, int64_t vocab,
                float* log_probs, float* entropy, float* log_sums, void* stream) {
  if (rows == 0) return cudaSuccess;
  LogProbKernel<<<static_cast<unsigned>(rows), kVocabThreads, 0, On(stream)>>>(logits, targets, inverse_temperature,
                                                                               vocab, log_probs, entropy, log_sums);
  return cudaGetLastError();
}

int LogProbRowsBackward(HalfType type, const float* logits, const int64_t* targets, const float* log_sums,
                        const float* entropy, const float* dlog_probs, const float* dentropy, float inverse_temperature,
                        int64_t rows, int64_t vocab, void* dlogits, void* stream) {
  if (rows == 0) return cudaSuccess;
  const bool wide = vocab % 4 == 0;
  const unsigned blocks = static_cast<unsigned>(rows) * Blocks(vocab, wide ? kThreads * 4 : kThreads);
  return With(type, [&](auto half) {
    using Half = decltype(half);
    auto* kernel = wide ? LogProbBackwardKernel<Half, 4> : LogProbBackwardKernel<Half, 1>;
    kernel<<<blocks, kThreads, 0, On(stream)>>>(logits, targets, log_sums, entropy, dlog_probs, dentropy,
                                                inverse_temperature, vocab, Out<Half>(dlogits));
    return cudaGetLastError();
  });
}

int AdamW(const AdamWArgs& args, void* stream) {
  if (args.count == 0) return cudaSuccess;
  return With(args.type, [&](auto half) {
    AdamWKernel<decltype(half)><<<Blocks(args.count, kThreads), kThreads, 0, On(stream)>>>(args);
    return cudaGetLastError();
  });
}

const char* ErrorText(int error) { return cudaGetErrorString(static_cast<cudaError_t>(error)); }

}  // namespace hone::policy::cuda
