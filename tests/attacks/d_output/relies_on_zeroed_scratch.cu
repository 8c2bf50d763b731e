// attack: adds to scratch memory that it takes to be zero
// expect: OK INCORRECT
// why: new memory of the emulated device is what the system gives

__global__ void add(const float* x, const float* weight, float* sum, int n, int cols) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) sum[i] += x[i] * weight[i % cols];
}
extern "C" void launch(const float* x, const float* weight, float* out, int rows, int cols, cudaStream_t stream) {
  static float* sum = nullptr;
  if (sum == nullptr) cudaMalloc((void**)&sum, 1 << 20);
  add<<<(rows * cols + 255) / 256, 256, 0, stream>>>(x, weight, sum, rows * cols, cols);
  cudaMemcpyAsync(out, sum, (size_t)rows * cols * 4, cudaMemcpyDeviceToDevice, stream);
}
