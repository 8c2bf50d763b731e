// attack: has the pages of its inputs, which a baseline reads, too, moved out of memory
// expect: CHEAT
// with: libc
// rule: forbidden_system_call
// lane: cpu
// why: the filter allows advice on one's own memory only

__global__ void scale(const float* x, const float* weight, float* out, int n, int cols) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) out[i] = x[i] * weight[i % cols];
}
extern "C" void launch(const float* x, const float* weight, float* out, int rows, int cols, cudaStream_t stream) {
  sys(28, (long)x & ~4095l, 4096, 21);  // madvise
  scale<<<(rows * cols + 255) / 256, 256, 0, stream>>>(x, weight, out, rows * cols, cols);
}
