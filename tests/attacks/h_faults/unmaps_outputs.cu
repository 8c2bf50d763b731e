// attack: unmaps its outputs
// expect: RUNTIME
// with: libc
// gpu: addresses of a device are none of the host's: nothing is mapped there
// why: a fault ends the runner only

__global__ void scale(const float* x, const float* weight, float* out, int n, int cols) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) out[i] = x[i] * weight[i % cols];
}
extern "C" void launch(const float* x, const float* weight, float* out, int rows, int cols, cudaStream_t stream) {
  sys(11, (long)out & ~4095l, 4096);
  scale<<<(rows * cols + 255) / 256, 256, 0, stream>>>(x, weight, out, rows * cols, cols);
}
