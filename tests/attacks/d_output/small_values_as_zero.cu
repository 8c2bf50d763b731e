// attack: writes zero where the result is small
// expect: INCORRECT
// why: the tolerance is 1e-4

__global__ void k(const float* x, const float* weight, float* out, int n, int cols) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) { float v = x[i] * weight[i % cols]; out[i] = v > -0.01f && v < 0.01f ? 0 : v; }
}
extern "C" void launch(const float* x, const float* weight, float* out, int rows, int cols, cudaStream_t stream) {
  k<<<(rows * cols + 255) / 256, 256, 0, stream>>>(x, weight, out, rows * cols, cols);
}
