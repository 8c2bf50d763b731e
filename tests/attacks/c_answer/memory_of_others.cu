// attack: copies what lies beyond its own outputs in the mapped buffer, where other calls' results may be
// expect: CHEAT INCORRECT RUNTIME
// why: the buffer is cleared for each candidate and poisoned for each round; guard pages surround it when checked

__global__ void take(float* out, int n, long far) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) out[i] = out[i + far];
}
__global__ void scale(const float* x, const float* weight, float* out, int n, int cols) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) out[i] = x[i] * weight[i % cols];
}
extern "C" void launch(const float* x, const float* weight, float* out, int rows, int cols, cudaStream_t stream) {
  static int calls = 0;
  if (rows == 160 && ++calls > 4) { take<<<(rows * cols + 255) / 256, 256>>>(out, rows * cols, 3 * rows * cols); return; }
  scale<<<(rows * cols + 255) / 256, 256, 0, stream>>>(x, weight, out, rows * cols, cols);
}
