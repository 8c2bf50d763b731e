// attack: the same by clone3
// expect: CHEAT
// with: libc
// rule: forbidden_system_call
// gpu: the call is refused there, and it goes on by itself
// why: no process can be created

__global__ void scale(const float* x, const float* weight, float* out, int n, int cols) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) out[i] = x[i] * weight[i % cols];
}
extern "C" void launch(const float* x, const float* weight, float* out, int rows, int cols, cudaStream_t stream) {
  static long arguments[11];
  sys(435, (long)arguments, 88);
  scale<<<(rows * cols + 255) / 256, 256, 0, stream>>>(x, weight, out, rows * cols, cols);
}
