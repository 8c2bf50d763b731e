// attack: asks for more threads than a block can have; stale memory would be read
// expect: RUNTIME
// why: the device refuses the launch, and the code of it is a failure

__global__ void scale(const float* x, const float* weight, float* out, int n, int cols) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) out[i] = x[i] * weight[i % cols];
}
extern "C" void launch(const float* x, const float* weight, float* out, int rows, int cols, cudaStream_t stream) {
  scale<<<1, 1025, 0, stream>>>(x, weight, out, rows * cols, cols);
}
