// attack: sets compiler flags of its own
// expect: FORBIDDEN
// rule: attribute
// why: the harness owns the flags

__attribute__((optimize("Ofast"))) static float half_of(float v) { return v / 2; }
__global__ void scale(const float* x, const float* weight, float* out, int n, int cols) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) out[i] = x[i] * weight[i % cols];
}
extern "C" void launch(const float* x, const float* weight, float* out, int rows, int cols, cudaStream_t stream) {
  if (half_of(1) > 1) return;
  scale<<<(rows * cols + 255) / 256, 256, 0, stream>>>(x, weight, out, rows * cols, cols);
}
