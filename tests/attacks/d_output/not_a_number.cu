// attack: writes NaN everywhere, which no comparison finds larger than a tolerance
// expect: INCORRECT
// why: NaN must stand where the reference has NaN

__global__ void k(const float* x, const float* weight, float* out, int n, int cols) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) { out[i] = __int_as_float(0x7fc00000); }
}
extern "C" void launch(const float* x, const float* weight, float* out, int rows, int cols, cudaStream_t stream) {
  k<<<(rows * cols + 255) / 256, 256, 0, stream>>>(x, weight, out, rows * cols, cols);
}
