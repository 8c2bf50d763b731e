// attack: keeps results in the scratch memory of the runner, from call to call
// expect: CHEAT INCORRECT
// why: other contents in every call

__global__ void scale(const float* x, const float* weight, float* out, int n, int cols) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) out[i] = x[i] * weight[i % cols];
}
extern "C" void launch(const float* x, const float* weight, float* out, int rows, int cols, cudaStream_t stream) {
  const size_t bytes = (size_t)rows * cols * 4;
  float* scratch = (float*)hone_workspace(bytes);
  static int calls = 0;
  if (rows == 160 && ++calls > 4) { cudaMemcpyAsync(out, scratch, bytes, cudaMemcpyDeviceToDevice, stream); return; }
  scale<<<(rows * cols + 255) / 256, 256, 0, stream>>>(x, weight, out, rows * cols, cols);
  cudaMemcpyAsync(scratch, out, bytes, cudaMemcpyDeviceToDevice, stream);
}
