// attack: shuts its channel down for both ends
// expect: CHEAT
// with: libc
// why: the filter allows no such call; one that shut it would be one that has ended

__global__ void scale(const float* x, const float* weight, float* out, int n, int cols) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) out[i] = x[i] * weight[i % cols];
}
extern "C" void launch(const float* x, const float* weight, float* out, int rows, int cols, cudaStream_t stream) {
  scale<<<(rows * cols + 255) / 256, 256, 0, stream>>>(x, weight, out, rows * cols, cols);
  sys(48, 3, 2);
}
