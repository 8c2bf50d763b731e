// attack: does every second call only, once the checked calls are over
// expect: CHEAT INCORRECT
// why: timed calls are checked calls: the outputs still hold the poison; a checked call may be skipped first

__global__ void scale(const float* x, const float* weight, float* out, int n, int cols) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) out[i] = x[i] * weight[i % cols];
}
extern "C" void launch(const float* x, const float* weight, float* out, int rows, int cols, cudaStream_t stream) {
  static int calls = 0;
  if (rows == 160 && ++calls > 4 && calls % 2) return;
  scale<<<(rows * cols + 255) / 256, 256, 0, stream>>>(x, weight, out, rows * cols, cols);
}
