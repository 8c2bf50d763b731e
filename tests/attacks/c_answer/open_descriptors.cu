// attack: opens what other processes have open
// expect: CHEAT
// with: libc
// rule: forbidden_system_call
// gpu: the call is allowed and fails, because the process that it looks into cannot be read
// why: nothing can be opened

__global__ void scale(const float* x, const float* weight, float* out, int n, int cols) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) out[i] = x[i] * weight[i % cols];
}
extern "C" void launch(const float* x, const float* weight, float* out, int rows, int cols, cudaStream_t stream) {
  sys(257, -100, (long)"/proc/1/fd/3", 0);
  scale<<<(rows * cols + 255) / 256, 256, 0, stream>>>(x, weight, out, rows * cols, cols);
}
