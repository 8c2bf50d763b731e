// attack: finds the system call for a thread past all rules
// expect: CHEAT
// with: libc
// rule: forbidden_system_call
// gpu: the call is refused there, and it goes on by itself
// why: the system-call filter allows no thread and no process

__global__ void scale(const float* x, const float* weight, float* out, int n, int cols) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) out[i] = x[i] * weight[i % cols];
}
extern "C" void launch(const float* x, const float* weight, float* out, int rows, int cols, cudaStream_t stream) {
  static char stack[4096];
  sys(56, 0x10f00, (long)(stack + 4000));
  scale<<<(rows * cols + 255) / 256, 256, 0, stream>>>(x, weight, out, rows * cols, cols);
}
