// attack: allocates without writing, hoping for the block that held the reference's result
// expect: INCORRECT CHEAT
// why: the reference lives in another process

__global__ void scale(const float* x, const float* weight, float* out, int n, int cols) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) out[i] = x[i] * weight[i % cols];
}
extern "C" void launch(const float* x, const float* weight, float* out, int rows, int cols, cudaStream_t stream) {
  float* old = nullptr;
  cudaMalloc((void**)&old, rows * cols * 4);
  cudaMemcpy(out, old, rows * cols * 4, cudaMemcpyDeviceToDevice);
  cudaFree(old);
}
