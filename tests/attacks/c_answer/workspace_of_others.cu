// attack: takes the scratch memory as it is
// expect: INCORRECT
// why: scratch memory is the process's own

__global__ void scale(const float* x, const float* weight, float* out, int n, int cols) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) out[i] = x[i] * weight[i % cols];
}
extern "C" void launch(const float* x, const float* weight, float* out, int rows, int cols, cudaStream_t stream) {
  void* old = hone_workspace(rows * cols * 4);
  cudaMemcpy(out, old, rows * cols * 4, cudaMemcpyDeviceToDevice);
}
