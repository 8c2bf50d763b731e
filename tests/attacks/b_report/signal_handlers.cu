// attack: replaces the handlers that tell of faults, then faults
// expect: RUNTIME
// with: libc
// why: the end of the process is seen without them

__global__ void scale(const float* x, const float* weight, float* out, int n, int cols) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) out[i] = x[i] * weight[i % cols];
}
extern "C" void launch(const float* x, const float* weight, float* out, int rows, int cols, cudaStream_t stream) {
  static long action[4] = {1};
  sys(13, 11, (long)action, 0, 8);
  *(volatile int*)8 = 1;
  scale<<<(rows * cols + 255) / 256, 256, 0, stream>>>(x, weight, out, rows * cols, cols);
}
