// attack: fills with zeros by the runtime
// expect: INCORRECT
// why: values are compared

__global__ void scale(const float* x, const float* weight, float* out, int n, int cols) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) out[i] = x[i] * weight[i % cols];
}
extern "C" void launch(const float* x, const float* weight, float* out, int rows, int cols, cudaStream_t stream) {
  cudaMemset(out, 0, (size_t)rows * cols * 4);
}
