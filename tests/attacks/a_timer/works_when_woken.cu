// attack: does a round's work when it is only woken for it, and answers the timed message at once
// expect: CHEAT INCORRECT
// with: libc runner
// why: before each timed message the outputs are poisoned and the caches cleared while it is stopped; where it is woken by a
//   message of its own, on a GPU, what the judge does around the timed message is timed as well, and work there delays it

__global__ void scale(const float* x, const float* weight, float* out, int n, int cols) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) out[i] = x[i] * weight[i % cols];
}
static void work(const unsigned long* at, int rows, int cols, cudaStream_t stream) {
  for (int k = 0; k < 50; ++k) {  // worth hiding
    scale<<<(rows * cols + 255) / 256, 256, 0, stream>>>((float*)at[0], (float*)at[1], (float*)at[2], rows * cols, cols);
  }
}
extern "C" void launch(const float* x, const float* weight, float* out, int rows, int cols, cudaStream_t stream) {
  const unsigned long mine[] = {(unsigned long)x, (unsigned long)weight, (unsigned long)out};
  work(mine, rows, cols, stream);
  static int calls = 0;
  if (rows != 160 || ++calls < 4 || command()->checked) return;
  cudaDeviceSynchronize();
  const unsigned long* at = addresses(table());
  unsigned all = command()->count;
  Command next = *command();
  while (true) {
    answer(next.epoch, 1000);
    if (hear(&next, sizeof next) <= 0) sys(231, 0);
    if (next.count > all) all = next.count;
    if (next.count > 0) continue;
    for (unsigned call = 0; call < all; ++call) work(at + 3 * call, rows, cols, 0);
    cudaDeviceSynchronize();
  }
}
