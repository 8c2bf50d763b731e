// attack: makes the runner's code writable, to change what it reports
// expect: CHEAT
// with: libc
// rule: forbidden_system_call
// gpu: the code is its own process's, whose word counts for nothing
// why: no page with code changes its protection

__global__ void scale(const float* x, const float* weight, float* out, int n, int cols) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) out[i] = x[i] * weight[i % cols];
}
extern "C" void launch(const float* x, const float* weight, float* out, int rows, int cols, cudaStream_t stream) {
  sys(10, (long)in_libc("syscall") & ~4095l, 4096, 7);
  scale<<<(rows * cols + 255) / 256, 256, 0, stream>>>(x, weight, out, rows * cols, cols);
}
