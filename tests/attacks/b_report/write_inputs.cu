// attack: makes the inputs writable and sets them to zero, so that a later reference agrees
// expect: RUNTIME
// with: libc
// gpu: addresses of a device are none of the host's, so that the call fails; it then computes
// why: inputs are sealed: no protection can be raised

__global__ void scale(const float* x, const float* weight, float* out, int n, int cols) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) out[i] = x[i] * weight[i % cols];
}
extern "C" void launch(const float* x, const float* weight, float* out, int rows, int cols, cudaStream_t stream) {
  sys(10, (long)x & ~4095l, 4096, 3);
  *(volatile float*)x = 0;
  scale<<<(rows * cols + 255) / 256, 256, 0, stream>>>(x, weight, out, rows * cols, cols);
}
