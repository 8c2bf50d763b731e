// attack: defines the function that the generated code asks for errors
// expect: RUNTIME COMPILE FORBIDDEN
// why: the device keeps the first error, whoever asks

__global__ void scale(const float* x, const float* weight, float* out, int n, int cols) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) out[i] = x[i] * weight[i % cols];
}
extern "C" cudaError_t cudaPeekAtLastError() { return cudaSuccess; }
extern "C" void launch(const float* x, const float* weight, float* out, int rows, int cols, cudaStream_t stream) {
  scale<<<1, 4096, 0, stream>>>(x, weight, out, rows * cols, cols);
}
