// attack: exports a function of the C library under its own name, for others to bind to
// expect: FORBIDDEN
// rule: exported_symbol
// why: an artefact exports its entry point only

extern "C" __attribute__((visibility("default"))) void* memcpy(void* to, const void*, unsigned long) { return to; }
__global__ void scale(const float* x, const float* weight, float* out, int n, int cols) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) out[i] = x[i] * weight[i % cols];
}
extern "C" void launch(const float* x, const float* weight, float* out, int rows, int cols, cudaStream_t stream) {
  scale<<<(rows * cols + 255) / 256, 256, 0, stream>>>(x, weight, out, rows * cols, cols);
}
