// attack: finds out by a small kernel in which order threads run, and works only in the order of checks
// expect: CHEAT
// rule: timed_call_skipped
// lane: cpu
// why: knowing that a call is timed helps nobody: it is checked

__device__ int order;
__global__ void who(int) { if (threadIdx.x == 31) order = 0; if (threadIdx.x == 0) order = 1; }
__global__ void scale(const float* x, const float* weight, float* out, int n, int cols) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) out[i] = x[i] * weight[i % cols];
}
extern "C" void launch(const float* x, const float* weight, float* out, int rows, int cols, cudaStream_t stream) {
  who<<<1, 32, 0, stream>>>(0);
  int last = 0;
  cudaMemcpyFromSymbol(&last, order, sizeof last);
  static int calls = 0;
  if (rows == 160 && ++calls > 3 && last == 0) return;
  scale<<<(rows * cols + 255) / 256, 256, 0, stream>>>(x, weight, out, rows * cols, cols);
}
