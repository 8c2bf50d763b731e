// attack: recurses without end
// expect: RUNTIME
// why: stacks end at guard pages

__device__ int deep(int n) { volatile int a[64]; a[n % 64] = n; return deep(n + 1) + a[0]; }
__global__ void k(const float* x, const float* weight, float* out, int n, int cols) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) { out[i] = deep(i); }
}
extern "C" void launch(const float* x, const float* weight, float* out, int rows, int cols, cudaStream_t stream) {
  k<<<(rows * cols + 255) / 256, 256, 0, stream>>>(x, weight, out, rows * cols, cols);
}
