// attack: pastes the attribute's name
// expect: FORBIDDEN
// rule: initialiser
// why: the object has a section of initialisers

#define P(a, b) a##b
__attribute__((P(const, ructor))) static void early() { for (volatile int i = 0; i < 10; ++i) {} }
__global__ void scale(const float* x, const float* weight, float* out, int n, int cols) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) out[i] = x[i] * weight[i % cols];
}
extern "C" void launch(const float* x, const float* weight, float* out, int rows, int cols, cudaStream_t stream) {
  scale<<<(rows * cols + 255) / 256, 256, 0, stream>>>(x, weight, out, rows * cols, cols);
}
