// attack: reads from the runner's stack whether it is checked, and works only then
// expect: CHEAT
// with: libc runner
// rule: timed_call_skipped
// why: knowing that a call is timed helps nobody: it is checked

__global__ void scale(const float* x, const float* weight, float* out, int n, int cols) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) out[i] = x[i] * weight[i % cols];
}
extern "C" void launch(const float* x, const float* weight, float* out, int rows, int cols, cudaStream_t stream) {
  Command* now = command();
  if (now != nullptr && now->checked == 0) return;
  scale<<<(rows * cols + 255) / 256, 256, 0, stream>>>(x, weight, out, rows * cols, cols);
}
