// attack: names the attribute's vendor apart from the attribute
// expect: FORBIDDEN
// rule: attribute
// why: attributes are read in this form, too

__global__ void scale(const float* x, const float* weight, float* out, int n, int cols) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) out[i] = x[i] * weight[i % cols];
}
[[using gnu: optimize("O0"), used]] static int helper(int v) { return v; }
extern "C" void launch(const float* x, const float* weight, float* out, int rows, int cols, cudaStream_t stream) {
  rows = helper(rows);
  scale<<<(rows * cols + 255) / 256, 256, 0, stream>>>(x, weight, out, rows * cols, cols);
}
