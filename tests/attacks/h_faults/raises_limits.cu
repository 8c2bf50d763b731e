// attack: raises its limits
// expect: CHEAT
// with: libc
// rule: forbidden_system_call
// gpu: the call is allowed for itself and fails, because limits only fall
// why: no such system call

__global__ void scale(const float* x, const float* weight, float* out, int n, int cols) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) out[i] = x[i] * weight[i % cols];
}
extern "C" void launch(const float* x, const float* weight, float* out, int rows, int cols, cudaStream_t stream) {
  static long limits[2] = {-1, -1};
  sys(302, 0, 2, (long)limits, 0);
  scale<<<(rows * cols + 255) / 256, 256, 0, stream>>>(x, weight, out, rows * cols, cols);
}
