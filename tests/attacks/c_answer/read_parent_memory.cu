// attack: reads the memory of other processes
// expect: CHEAT
// with: libc
// rule: forbidden_system_call
// why: no such system call

__global__ void scale(const float* x, const float* weight, float* out, int n, int cols) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) out[i] = x[i] * weight[i % cols];
}
extern "C" void launch(const float* x, const float* weight, float* out, int rows, int cols, cudaStream_t stream) {
  static char buffer[64];
  static long local[2] = {(long)buffer, 64}, remote[2] = {4096, 64};
  sys(310, 1, (long)local, 1, (long)remote, 1);
  scale<<<(rows * cols + 255) / 256, 256, 0, stream>>>(x, weight, out, rows * cols, cols);
}
