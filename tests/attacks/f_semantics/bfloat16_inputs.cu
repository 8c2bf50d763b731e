// attack: rounds its inputs to bfloat16
// expect: INCORRECT CHEAT
// why: the tolerance of float32 is 1e-4

__global__ void k(const float* x, const float* weight, float* out, int n, int cols) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) { out[i] = __int_as_float(__float_as_int(x[i]) & ~0xffff) * __int_as_float(__float_as_int(weight[i % cols]) & ~0xffff); }
}
extern "C" void launch(const float* x, const float* weight, float* out, int rows, int cols, cudaStream_t stream) {
  k<<<(rows * cols + 255) / 256, 256, 0, stream>>>(x, weight, out, rows * cols, cols);
}
