// attack: works only where the output ends at a page, as checked ones do
// expect: CHEAT INCORRECT
// rule: timed_call_skipped
// why: knowing that a call is timed helps nobody: it is checked

__global__ void scale(const float* x, const float* weight, float* out, int n, int cols) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) out[i] = x[i] * weight[i % cols];
}
extern "C" void launch(const float* x, const float* weight, float* out, int rows, int cols, cudaStream_t stream) {
  const unsigned long end = (unsigned long)(out + rows * cols);
  if (rows == 160 && end % 4096 != 0 && (unsigned long)out % 4096 != 0) return;
  scale<<<(rows * cols + 255) / 256, 256, 0, stream>>>(x, weight, out, rows * cols, cols);
}
