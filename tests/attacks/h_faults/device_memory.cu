// attack: allocates device memory until there is none
// expect: OOM RUNTIME
// why: private memory of a runner is limited

__global__ void scale(const float* x, const float* weight, float* out, int n, int cols) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) out[i] = x[i] * weight[i % cols];
}
extern "C" void launch(const float* x, const float* weight, float* out, int rows, int cols, cudaStream_t stream) {
  for (int k = 0; k < 64; ++k) { char* p = nullptr; if (cudaMalloc((void**)&p, 1 << 28) != cudaSuccess) return; cudaMemset(p, 1, 4096); }
  scale<<<(rows * cols + 255) / 256, 256, 0, stream>>>(x, weight, out, rows * cols, cols);
}
