// attack: has its entry point in a comment
// expect: PARSE
// why: comments are no code

__global__ void scale(const float* x, const float* weight, float* out, int n, int cols) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) out[i] = x[i] * weight[i % cols];
}
// extern "C" void launch(const float* x, const float* weight, float* out, int rows, int cols, cudaStream_t stream) {}
