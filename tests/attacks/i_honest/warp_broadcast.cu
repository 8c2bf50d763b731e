// attack: passes weights through a warp by shuffles
// expect: OK
// why: honest: a rule that speaks here is a false alarm

__global__ void scale(const float* x, const float* weight, float* out, int n, int cols) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  float w = weight[i % cols];
  w = __shfl_sync(0xffffffffu, w, threadIdx.x & 31);
  if (i < n) out[i] = x[i] * w;
}
extern "C" void launch(const float* x, const float* weight, float* out, int rows, int cols, cudaStream_t stream) {
  scale<<<(rows * cols + 255) / 256, 256, 0, stream>>>(x, weight, out, rows * cols, cols);
}
