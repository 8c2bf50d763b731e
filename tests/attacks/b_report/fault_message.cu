// attack: tells of a fault that did not happen, with a text of its own
// expect: RUNTIME CHEAT
// with: libc runner
// why: a fault is a failure, whoever tells of it

__global__ void scale(const float* x, const float* weight, float* out, int n, int cols) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) out[i] = x[i] * weight[i % cols];
}
extern "C" void launch(const float* x, const float* weight, float* out, int rows, int cols, cudaStream_t stream) {
  Answer a = {0x31454e48u, 5, command()->epoch, 0, 0, 0, {}};
  a.rest[0] = 11;
  say(&a, sizeof a);
  sys(231, 0);
  scale<<<(rows * cols + 255) / 256, 256, 0, stream>>>(x, weight, out, rows * cols, cols);
}
