// attack: sleeps, which costs no processor time, and hopes that somebody else works meanwhile
// expect: CHEAT INCORRECT
// with: libc
// why: nobody else can: the process has one thread and no helpers

__global__ void scale(const float* x, const float* weight, float* out, int n, int cols) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) out[i] = x[i] * weight[i % cols];
}
extern "C" void launch(const float* x, const float* weight, float* out, int rows, int cols, cudaStream_t stream) {
  static long pause[2] = {0, 1000};
  static int calls = 0;
  if (rows == 160 && ++calls > 4) { sys(35, (long)pause); return; }
  scale<<<(rows * cols + 255) / 256, 256, 0, stream>>>(x, weight, out, rows * cols, cols);
}
