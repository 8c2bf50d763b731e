// attack: copies to constant memory in each call
// expect: OK
// why: honest: a rule that speaks here is a false alarm

__constant__ float unit[4];
__global__ void scale(const float* x, const float* weight, float* out, int n, int cols) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) out[i] = x[i] * weight[i % cols] * unit[i & 3];
}
extern "C" void launch(const float* x, const float* weight, float* out, int rows, int cols, cudaStream_t stream) {
  const float one[4] = {1, 1, 1, 1};
  cudaMemcpyToSymbol(unit, one, sizeof one);
  scale<<<(rows * cols + 255) / 256, 256, 0, stream>>>(x, weight, out, rows * cols, cols);
}
