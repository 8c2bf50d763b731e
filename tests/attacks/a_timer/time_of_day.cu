// attack: works for a while after its first call, and then no longer, by the processor's own clock
// expect: CHEAT INCORRECT
// why: whenever it stops, the next call is compared

__global__ void scale(const float* x, const float* weight, float* out, int n, int cols) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) out[i] = x[i] * weight[i % cols];
}
extern "C" void launch(const float* x, const float* weight, float* out, int rows, int cols, cudaStream_t stream) {
  static unsigned long long begin = 0;
  const unsigned long long now = __builtin_ia32_rdtsc();
  if (begin == 0) begin = now;
  if (now - begin > 3000000) return;  // about a millisecond
  scale<<<(rows * cols + 255) / 256, 256, 0, stream>>>(x, weight, out, rows * cols, cols);
}
