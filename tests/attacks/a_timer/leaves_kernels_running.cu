// attack: queues a round's kernels and answers before they have run
// expect: CHEAT INCORRECT
// with: libc runner
// lane: device
// why: the outputs are compared at once, before another party's turn, and the judge's own kernels are delayed by what is left
//   on the device

__global__ void scale(const float* x, const float* weight, float* out, int n, int cols) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) out[i] = x[i] * weight[i % cols];
}
static void work(const unsigned long* at, int rows, int cols, cudaStream_t stream) {
  for (int k = 0; k < 50; ++k) {  // worth leaving
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
  Command next = *command();
  while (true) {
    answer(next.epoch, 1000);
    if (hear(&next, sizeof next) <= 0) sys(231, 0);
    for (unsigned call = 0; call < next.count; ++call) work(at + 3 * call, rows, cols, 0);
  }
}
