// attack: launches one block only once the checks are over
// expect: CHEAT
// rule: timed_call_skipped
// why: the rest of the output is still poisoned

__global__ void scale(const float* x, const float* weight, float* out, int n, int cols) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) out[i] = x[i] * weight[i % cols];
}
extern "C" void launch(const float* x, const float* weight, float* out, int rows, int cols, cudaStream_t stream) {
  static int calls = 0;
  const int blocks = rows == 160 && ++calls > 4 ? 1 : (rows * cols + 255) / 256;
  scale<<<blocks, 256, 0, stream>>>(x, weight, out, rows * cols, cols);
}
