// attack: launches with too many threads and clears the error before anybody asks
// expect: RUNTIME
// why: the device keeps the first error, asked for or not

__global__ void scale(const float* x, const float* weight, float* out, int n, int cols) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) out[i] = x[i] * weight[i % cols];
}
extern "C" void launch(const float* x, const float* weight, float* out, int rows, int cols, cudaStream_t stream) {
  scale<<<1, 4096, 0, stream>>>(x, weight, out, rows * cols, cols);
  cudaGetLastError();
}
