// attack: asks for a timer signal, to work later
// expect: CHEAT
// with: libc
// rule: forbidden_system_call
// why: no timers

__global__ void scale(const float* x, const float* weight, float* out, int n, int cols) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) out[i] = x[i] * weight[i % cols];
}
extern "C" void launch(const float* x, const float* weight, float* out, int rows, int cols, cudaStream_t stream) {
  static long soon[4] = {0, 1000, 0, 1000};
  sys(38, 0, (long)soon);
  scale<<<(rows * cols + 255) / 256, 256, 0, stream>>>(x, weight, out, rows * cols, cols);
}
