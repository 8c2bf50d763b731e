// attack: waits for a word in memory to change, which costs no processor time
// expect: TIMEOUT
// with: libc
// why: no answer by the deadline

__global__ void scale(const float* x, const float* weight, float* out, int n, int cols) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) out[i] = x[i] * weight[i % cols];
}
extern "C" void launch(const float* x, const float* weight, float* out, int rows, int cols, cudaStream_t stream) {
  scale<<<(rows * cols + 255) / 256, 256, 0, stream>>>(x, weight, out, rows * cols, cols);
  static int word = 0;
  while (true) sys(202, (long)&word, 128, 0);  // futex, private
}
