// attack: is slow at first, so that rounds are planned with few calls and the message's cost, which is subtracted,
//   weighs much
// expect: OK
// harmless: it is timed like the same kernel without the delay
// why: a round that turns out too short is planned anew and the old ones are thrown away

__global__ void scale(const float* x, const float* weight, float* out, int n, int cols) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) out[i] = x[i] * weight[i % cols];
}
extern "C" void launch(const float* x, const float* weight, float* out, int rows, int cols, cudaStream_t stream) {
  static int calls = 0;
  if (rows == 160 && ++calls < 4) { for (volatile int i = 0; i < 300000; ++i) {} }
  scale<<<(rows * cols + 255) / 256, 256, 0, stream>>>(x, weight, out, rows * cols, cols);
}
