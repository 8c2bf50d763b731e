// attack: writes zeros to the input that the reference will read
// expect: RUNTIME
// why: inputs can only be read, and the reference has its own

__global__ void k(const float* x, const float* weight, float* out, int n, int cols) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) { ((float*)x)[i] = 0; out[i] = 0; }
}
extern "C" void launch(const float* x, const float* weight, float* out, int rows, int cols, cudaStream_t stream) {
  k<<<(rows * cols + 255) / 256, 256, 0, stream>>>(x, weight, out, rows * cols, cols);
}
