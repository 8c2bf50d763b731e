// The suite's task half_leaky_scale on pairs of halves.
#include <cuda_fp16.h>

__global__ void leaky_scale(const half2* __restrict__ x, half2* __restrict__ out, int pairs) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= pairs) return;
  const float2 v = __half22float2(x[i]);
  out[i] = __floats2half2_rn((v.x > 0 ? v.x : 0.1f * v.x) * 1.5f, (v.y > 0 ? v.y : 0.1f * v.y) * 1.5f);
}

__global__ void last_one(const half* x, half* out, int count) {
  const half v = x[count - 1];
  out[count - 1] = (v > half(0.0f) ? v : half(0.1f) * v) * half(1.5f);
}

extern "C" void launch(const half* x, half* out, int count, cudaStream_t stream) {
  const int pairs = count / 2;
  if (pairs > 0) {
    leaky_scale<<<(pairs + 255) / 256, 256, 0, stream>>>(reinterpret_cast<const half2*>(x), reinterpret_cast<half2*>(out), pairs);
  }
  if (count % 2 != 0) last_one<<<1, 1, 0, stream>>>(x, out, count);
}
