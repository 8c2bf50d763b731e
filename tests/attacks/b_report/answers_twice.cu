// attack: answers its command itself and lets the runner answer once more, for the next command to find
// expect: CHEAT
// with: libc runner
// rule: forged_answer
// why: each answer repeats its command's random number, so that the second one answers nothing

__global__ void scale(const float* x, const float* weight, float* out, int n, int cols) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) out[i] = x[i] * weight[i % cols];
}
extern "C" void launch(const float* x, const float* weight, float* out, int rows, int cols, cudaStream_t stream) {
  scale<<<(rows * cols + 255) / 256, 256, 0, stream>>>(x, weight, out, rows * cols, cols);
  static int calls = 0;
  if (++calls == 2) answer(command()->epoch, 1000);
}
