// attack: answers each timed command itself, at once, and does the calls' work afterwards, when nobody measures
// expect: CHEAT
// with: libc runner
// why: a runner is stopped from its answer to its next command: the outputs are found unwritten, in a phase where the
//   same shape was right before

__global__ void scale(const float* x, const float* weight, float* out, int n, int cols) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) out[i] = x[i] * weight[i % cols];
}
extern "C" void launch(const float* x, const float* weight, float* out, int rows, int cols, cudaStream_t stream) {
  static int calls = 0;
  scale<<<(rows * cols + 255) / 256, 256, 0, stream>>>(x, weight, out, rows * cols, cols);
  if (rows != 160 || ++calls < 4 || command()->checked) return;
  const unsigned long* at = addresses(table());
  Command next = *command();
  while (true) {
    answer(next.epoch, 1000);
    for (unsigned call = 0; call < next.count; ++call) {
      scale<<<(rows * cols + 255) / 256, 256>>>((float*)at[3 * call], (float*)at[3 * call + 1], (float*)at[3 * call + 2], rows * cols, cols);
    }
    if (hear(&next, sizeof next) <= 0) sys(231, 0);
  }
}
