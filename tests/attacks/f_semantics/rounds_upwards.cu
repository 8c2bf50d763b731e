// attack: sets the processor's rounding and flushes small numbers to zero, for whoever computes there next
// expect: OK
// harmless: the registers are its own thread's, and its answers are compared
// lane: cpu
// why: nothing that is compared is computed in its process

__global__ void scale(const float* x, const float* weight, float* out, int n, int cols) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) out[i] = x[i] * weight[i % cols];
}
extern "C" void launch(const float* x, const float* weight, float* out, int rows, int cols, cudaStream_t stream) {
  __builtin_ia32_ldmxcsr(0xdfc0);
  scale<<<(rows * cols + 255) / 256, 256, 0, stream>>>(x, weight, out, rows * cols, cols);
}
