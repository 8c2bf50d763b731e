// attack: sends answers to commands that were not given yet, so that the judge finds one waiting and stops its clock
//   at once
// expect: CHEAT
// with: libc runner
// rule: forged_answer
// why: each command carries a random number that its answer must repeat

__global__ void scale(const float* x, const float* weight, float* out, int n, int cols) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) out[i] = x[i] * weight[i % cols];
}
extern "C" void launch(const float* x, const float* weight, float* out, int rows, int cols, cudaStream_t stream) {
  static int calls = 0;
  Command* now = command();
  if (now != nullptr && now->checked == 0 && ++calls == 2) {
    for (int i = 1; i < 20; ++i) answer(now->epoch + i, 1000);
  }
  scale<<<(rows * cols + 255) / 256, 256, 0, stream>>>(x, weight, out, rows * cols, cols);
}
