// attack: writes infinities
// expect: INCORRECT
// why: as NaN

__global__ void k(const float* x, const float* weight, float* out, int n, int cols) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) { out[i] = x[i] > 0 ? __int_as_float(0x7f800000) : -__int_as_float(0x7f800000); }
}
extern "C" void launch(const float* x, const float* weight, float* out, int rows, int cols, cudaStream_t stream) {
  k<<<(rows * cols + 255) / 256, 256, 0, stream>>>(x, weight, out, rows * cols, cols);
}
