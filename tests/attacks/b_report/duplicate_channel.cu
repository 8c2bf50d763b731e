// attack: hands its channel on under another number and closes the one that its runner uses
// expect: CHEAT RUNTIME
// with: libc
// why: the filter allows no copies of descriptors here; a runner without its channel is one that has ended

__global__ void scale(const float* x, const float* weight, float* out, int n, int cols) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) out[i] = x[i] * weight[i % cols];
}
extern "C" void launch(const float* x, const float* weight, float* out, int rows, int cols, cudaStream_t stream) {
  scale<<<(rows * cols + 255) / 256, 256, 0, stream>>>(x, weight, out, rows * cols, cols);
  sys(33, 3, 9);  // dup2
  sys(3, 3);
}
