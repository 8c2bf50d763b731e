// attack: does the next round's work while the other party has its turn, and then only answers
// expect: CHEAT
// with: libc runner
// why: it is stopped while others have theirs, so the work that it counts on was never done

__global__ void scale(const float* x, const float* weight, float* out, int n, int cols) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) out[i] = x[i] * weight[i % cols];
}
extern "C" void launch(const float* x, const float* weight, float* out, int rows, int cols, cudaStream_t stream) {
  scale<<<(rows * cols + 255) / 256, 256, 0, stream>>>(x, weight, out, rows * cols, cols);
  static int calls = 0;
  if (rows != 160 || command()->checked || ++calls < 4) return;
  Command next = *command();
  const unsigned long* at = addresses(table());
  answer(next.epoch, 1000);
  while (true) {
    for (int k = 0; k < 64; ++k) {  // until something new must have been staged
      for (int call = 0; call < 4; ++call) {
        scale<<<(rows * cols + 255) / 256, 256>>>((float*)at[3 * call], (float*)at[3 * call + 1], (float*)at[3 * call + 2], rows * cols, cols);
      }
    }
    if (hear(&next, sizeof next) <= 0) sys(231, 0);
    answer(next.epoch, 1000);
  }
}
