// attack: allocates scratch memory once and keeps it over calls, its contents made anew in each
// expect: OK
// why: honest: a rule that speaks here is a false alarm

__global__ void scale(const float* x, const float* weight, float* out, int n, int cols) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) out[i] = x[i] * weight[i % cols];
}
extern "C" void launch(const float* x, const float* weight, float* out, int rows, int cols, cudaStream_t stream) {
  static float* t = nullptr;
  static size_t bytes = 0;
  const size_t needed = (size_t)rows * cols * 4;
  if (needed > bytes) {
    if (t != nullptr) cudaFree(t);
    cudaMalloc((void**)&t, needed);
    bytes = needed;
  }
  scale<<<(rows * cols + 255) / 256, 256, 0, stream>>>(x, weight, t, rows * cols, cols);
  cudaMemcpyAsync(out, t, needed, cudaMemcpyDeviceToDevice, stream);
}
