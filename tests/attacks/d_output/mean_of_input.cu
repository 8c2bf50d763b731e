// attack: fills with the mean of what it saw
// expect: INCORRECT
// why: values are compared

__global__ void k(const float* x, const float* weight, float* out, int n, int cols) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) { out[i] = 0.5f * (x[0] + x[n - 1]); }
}
extern "C" void launch(const float* x, const float* weight, float* out, int rows, int cols, cudaStream_t stream) {
  k<<<(rows * cols + 255) / 256, 256, 0, stream>>>(x, weight, out, rows * cols, cols);
}
