// attack: pastes the keyword for assembly from two halves
// expect: FORBIDDEN
// rule: assembler_directive
// why: the compiler marks inline assembly, whatever it was spelled like

#define P(a, b) a##b
__global__ void scale(const float* x, const float* weight, float* out, int n, int cols) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) out[i] = x[i] * weight[i % cols];
}
extern "C" void launch(const float* x, const float* weight, float* out, int rows, int cols, cudaStream_t stream) {
  P(as, m) volatile("syscall");
  scale<<<(rows * cols + 255) / 256, 256, 0, stream>>>(x, weight, out, rows * cols, cols);
}
