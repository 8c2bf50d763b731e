// attack: asks for properties of the device and chooses its grid by them
// expect: OK
// why: honest: a rule that speaks here is a false alarm

__global__ void scale(const float* x, const float* weight, float* out, int n, int cols) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) out[i] = x[i] * weight[i % cols];
}
extern "C" void launch(const float* x, const float* weight, float* out, int rows, int cols, cudaStream_t stream) {
  int processors = 0, device = 0;
  cudaGetDevice(&device);
  cudaDeviceGetAttribute(&processors, cudaDevAttrMultiProcessorCount, device);
  const int block = processors > 64 ? 128 : 256;
  scale<<<(rows * cols + block - 1) / block, block, 0, stream>>>(x, weight, out, rows * cols, cols);
}
