// attack: writes to its standard output past the runtime
// expect: RUNTIME INCORRECT TIMEOUT CHEAT
// with: libc
// why: the pipe does not block and is cut

__global__ void scale(const float* x, const float* weight, float* out, int n, int cols) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) out[i] = x[i] * weight[i % cols];
}
extern "C" void launch(const float* x, const float* weight, float* out, int rows, int cols, cudaStream_t stream) {
  static char line[4096];
  for (int k = 0; k < 20000; ++k) sys(1, 1, (long)line, 4096);
  rows = 0;
}
