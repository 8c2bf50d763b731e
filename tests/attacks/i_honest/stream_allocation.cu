// attack: allocates and frees on the stream in each call
// expect: OK
// why: honest: a rule that speaks here is a false alarm

__global__ void scale(const float* x, const float* weight, float* out, int n, int cols) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) out[i] = x[i] * weight[i % cols];
}
extern "C" void launch(const float* x, const float* weight, float* out, int rows, int cols, cudaStream_t stream) {
  float* t = nullptr;
  if (cudaMallocAsync((void**)&t, (size_t)rows * cols * 4, stream) != cudaSuccess) return;
  scale<<<(rows * cols + 255) / 256, 256, 0, stream>>>(x, weight, t, rows * cols, cols);
  cudaMemcpyAsync(out, t, (size_t)rows * cols * 4, cudaMemcpyDeviceToDevice, stream);
  cudaFreeAsync(t, stream);
}
