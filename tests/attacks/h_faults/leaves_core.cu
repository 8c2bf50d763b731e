// attack: moves to another processor
// expect: CHEAT
// with: libc
// rule: forbidden_system_call
// gpu: lanes of a GPU keep to cores of their own, and count wall time
// why: no such system call

__global__ void scale(const float* x, const float* weight, float* out, int n, int cols) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) out[i] = x[i] * weight[i % cols];
}
extern "C" void launch(const float* x, const float* weight, float* out, int rows, int cols, cudaStream_t stream) {
  static long all = -1;
  sys(203, 0, 8, (long)&all);
  scale<<<(rows * cols + 255) / 256, 256, 0, stream>>>(x, weight, out, rows * cols, cols);
}
