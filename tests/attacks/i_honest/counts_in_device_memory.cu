// attack: the last block to finish, found by a counter in device memory that it sets back, writes what is left
// expect: OK
// why: honest: memory that is kept between calls is no cache of answers

__device__ unsigned finished = 0;

__global__ void scale(const float* x, const float* weight, float* out, int n, int cols) {
  __shared__ bool last;
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n - 1) out[i] = x[i] * weight[i % cols];
  __threadfence();
  __syncthreads();
  if (threadIdx.x == 0) last = atomicAdd(&finished, 1u) == gridDim.x - 1;
  __syncthreads();
  if (last && threadIdx.x == 0) {
    out[n - 1] = x[n - 1] * weight[(n - 1) % cols];
    finished = 0;
  }
}

extern "C" void launch(const float* x, const float* weight, float* out, int rows, int cols, cudaStream_t stream) {
  scale<<<(rows * cols + 255) / 256, 256, 0, stream>>>(x, weight, out, rows * cols, cols);
}
