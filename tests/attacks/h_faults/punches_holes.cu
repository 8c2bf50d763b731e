// attack: takes the pages of its outputs away
// expect: INCORRECT RUNTIME CHEAT
// with: libc
// why: the judge sees zeros, not a fault

__global__ void scale(const float* x, const float* weight, float* out, int n, int cols) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) out[i] = x[i] * weight[i % cols];
}
extern "C" void launch(const float* x, const float* weight, float* out, int rows, int cols, cudaStream_t stream) {
  scale<<<(rows * cols + 255) / 256, 256, 0, stream>>>(x, weight, out, rows * cols, cols);
  sys(28, (long)out & ~4095l, (rows * cols * 4l + 4095) & ~4095l, 9);
}
