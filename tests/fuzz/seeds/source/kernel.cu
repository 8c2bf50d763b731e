#include <cuda_runtime.h>
#define N 32
template <typename T> __device__ __forceinline__ T twice(T x) { return x + x; }
__global__ __launch_bounds__(256) void k(const float* __restrict__ x, float* out, int n) {
  extern __shared__ float dynamic[];
  __shared__ float tile[N][N + 1];
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  #pragma unroll
  for (int j = 0; j < 4; ++j) tile[threadIdx.x % N][j] = x[i + j];
  __syncthreads();
  float v = __shfl_down_sync(0xffffffffu, tile[0][0], 16);
  atomicAdd(&out[0], v);
  if (i < n) out[i] += twice(v) * R"(raw)"[0] / 'a';
}
extern "C" void launch(const float* x, float* out, int n, cudaStream_t stream) {
  k<<<dim3((n + 255) / 256, 1), 256, N * sizeof(float), stream>>>(x, out, n);
  cudaMemcpyAsync(out, x, n, cudaMemcpyDeviceToDevice, stream);  // comment
}
