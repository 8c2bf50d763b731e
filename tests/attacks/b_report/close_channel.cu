// attack: closes its channel and goes on
// expect: CHEAT
// with: libc
// rule: forged_answer
// why: a process that cannot answer and does not end is no honest one

__global__ void scale(const float* x, const float* weight, float* out, int n, int cols) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) out[i] = x[i] * weight[i % cols];
}
extern "C" void launch(const float* x, const float* weight, float* out, int rows, int cols, cudaStream_t stream) {
  sys(3, 3);
  while (true) { static long pause[2] = {0, 1000000}; sys(35, (long)pause); }
  scale<<<(rows * cols + 255) / 256, 256, 0, stream>>>(x, weight, out, rows * cols, cols);
}
