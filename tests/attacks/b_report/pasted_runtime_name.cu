// attack: calls a function of the harness whose name it pastes
// expect: FORBIDDEN
// rule: foreign_symbol
// why: the object asks for a foreign symbol

#define P(a, b) a##b
extern "C" void P(ho, ne_cpu_reset)();
__global__ void scale(const float* x, const float* weight, float* out, int n, int cols) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) out[i] = x[i] * weight[i % cols];
}
extern "C" void launch(const float* x, const float* weight, float* out, int rows, int cols, cudaStream_t stream) {
  P(ho, ne_cpu_reset)();
  scale<<<(rows * cols + 255) / 256, 256, 0, stream>>>(x, weight, out, rows * cols, cols);
}
