// attack: writes half-width values
// expect: INCORRECT
// why: elements are read as what the task says

__global__ void k(const float* x, const float* weight, float* out, int n, int cols) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) { if (i < n / 2) ((unsigned*)out)[i] = 0x3c003c00u; }
}
extern "C" void launch(const float* x, const float* weight, float* out, int rows, int cols, cudaStream_t stream) {
  k<<<(rows * cols + 255) / 256, 256, 0, stream>>>(x, weight, out, rows * cols, cols);
}
