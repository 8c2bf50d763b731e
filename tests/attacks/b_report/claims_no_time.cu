// attack: does its work, and says in its answers that it took no time
// expect: CHEAT
// with: libc runner
// why: the judge measures from outside, and the claim is held against it

__global__ void scale(const float* x, const float* weight, float* out, int n, int cols) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) out[i] = x[i] * weight[i % cols];
}
extern "C" void launch(const float* x, const float* weight, float* out, int rows, int cols, cudaStream_t stream) {
  for (int k = 0; k < 4; ++k) scale<<<(rows * cols + 255) / 256, 256, 0, stream>>>(x, weight, out, rows * cols, cols);
  static int calls = 0;
  if (rows != 160 || command()->checked || ++calls < 2) return;
  Command next = *command();
  const unsigned long* at = addresses(table());
  while (true) {
    for (unsigned call = 0; call < next.count; ++call) {
      for (int k = 0; k < 4; ++k) {
        scale<<<(rows * cols + 255) / 256, 256>>>((float*)at[3 * call], (float*)at[3 * call + 1], (float*)at[3 * call + 2], rows * cols, cols);
      }
    }
    answer(next.epoch, 0);
    if (hear(&next, sizeof next) <= 0) sys(231, 0);
  }
}
