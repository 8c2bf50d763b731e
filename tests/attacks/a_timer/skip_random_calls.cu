// attack: leaves out one call in sixty, at random
// expect: CHEAT
// rule: timed_call_skipped
// why: every output of every timed call is compared, not a sample

__global__ void scale(const float* x, const float* weight, float* out, int n, int cols) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) out[i] = x[i] * weight[i % cols];
}
static unsigned state = 12345;
extern "C" void launch(const float* x, const float* weight, float* out, int rows, int cols, cudaStream_t stream) {
  state = state * 1664525u + 1013904223u;
  static int calls = 0;
  if (rows == 160 && ++calls > 4 && state % 60 == 0) return;
  if (calls > 12 && calls % 50 == 0) return;
  scale<<<(rows * cols + 255) / 256, 256, 0, stream>>>(x, weight, out, rows * cols, cols);
}
