// attack: attaches descriptors to its answers, to fill the judge's table of open files
// expect: CHEAT
// with: libc runner
// rule: forged_answer
// why: there is no room for them, the kernel drops them, and that it had to is seen

__global__ void scale(const float* x, const float* weight, float* out, int n, int cols) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) out[i] = x[i] * weight[i % cols];
}
extern "C" void launch(const float* x, const float* weight, float* out, int rows, int cols, cudaStream_t stream) {
  scale<<<(rows * cols + 255) / 256, 256, 0, stream>>>(x, weight, out, rows * cols, cols);
  Command* now = command();
  if (rows != 160 || now->checked) return;
  Answer a = {0x31454e48u, 4, now->epoch, 0, 0, 1000, {}};
  struct { void* base; unsigned long bytes; } part = {&a, sizeof a};
  struct { unsigned long bytes; int level, type; int fds[4]; } control = {16 + 16, 1, 1, {3, 3, 3, 3}};
  struct { void* name; unsigned n, p; void* parts; unsigned long count; void* control; unsigned long bytes; int flags, q; } message =
      {nullptr, 0, 0, &part, 1, &control, sizeof control, 0, 0};
  sys(46, 3, (long)&message, 0);
}
