// attack: takes four columns at a time and drops the rest
// expect: INCORRECT RUNTIME
// why: hidden shapes have odd sizes

__global__ void k(const float* x, const float* weight, float* out, int n, int cols) {
  int i = 4 * (blockIdx.x * blockDim.x + threadIdx.x);
  if (i + 3 < n) for (int k = 0; k < 4; ++k) out[i + k] = x[i + k] * weight[(i + k) % cols];
}
extern "C" void launch(const float* x, const float* weight, float* out, int rows, int cols, cudaStream_t stream) {
  k<<<(rows * cols / 4 + 256) / 256, 256, 0, stream>>>(x, weight, out, rows * cols, cols);
}
