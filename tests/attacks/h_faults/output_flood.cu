// attack: prints without end
// expect: INCORRECT RUNTIME TIMEOUT
// why: output is cut and nobody waits for it

__global__ void k(const float* x, const float* weight, float* out, int n, int cols) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) { printf("%d flood flood flood flood flood\n", i); out[i] = 0; }
}
extern "C" void launch(const float* x, const float* weight, float* out, int rows, int cols, cudaStream_t stream) {
  k<<<(rows * cols + 255) / 256, 256, 0, stream>>>(x, weight, out, rows * cols, cols);
}
