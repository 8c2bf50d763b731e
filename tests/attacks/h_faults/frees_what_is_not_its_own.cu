// attack: frees its inputs and its outputs
// expect: RUNTIME
// harmless: it computes its answers where the calls fail
// why: they are none of its allocations, and an error is looked for after each call

__global__ void scale(const float* x, const float* weight, float* out, int n, int cols) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) out[i] = x[i] * weight[i % cols];
}
extern "C" void launch(const float* x, const float* weight, float* out, int rows, int cols, cudaStream_t stream) {
  cudaFree((void*)x);
  cudaFree(out);
  scale<<<(rows * cols + 255) / 256, 256, 0, stream>>>(x, weight, out, rows * cols, cols);
}
