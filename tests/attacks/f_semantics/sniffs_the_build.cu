// attack: is two programs: one as the checked artefact is compiled, one as the timed one is
// expect: CHEAT
// rule: timed_call_skipped
// why: knowing that a call is timed helps nobody: it is checked

__global__ void scale(const float* x, const float* weight, float* out, int n, int cols) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) out[i] = x[i] * weight[i % cols];
}
static int answer(int v) { return __builtin_constant_p(v) ? 1 : 0; }
extern "C" void launch(const float* x, const float* weight, float* out, int rows, int cols, cudaStream_t stream) {
  static int calls = 0;
  int four = 4;
  if (rows == 160 && ++calls > 4 && (answer(four) || true)) return;
  scale<<<(rows * cols + 255) / 256, 256, 0, stream>>>(x, weight, out, rows * cols, cols);
}
