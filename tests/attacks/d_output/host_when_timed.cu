// attack: launches kernels when checked, where host code cannot reach device memory, and computes on the host when
//   timed
// expect: CHEAT
// with: libc runner
// rule: launches_differ
// why: no kernel launched in a timed round of a candidate whose checked calls launch some

__global__ void scale(const float* x, const float* weight, float* out, int n, int cols) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) out[i] = x[i] * weight[i % cols];
}
extern "C" void launch(const float* x, const float* weight, float* out, int rows, int cols, cudaStream_t stream) {
  static int calls = 0;
  if (rows == 160 && ++calls >= 1 && command() != nullptr && command()->checked == 0) {
    for (int i = 0; i < rows * cols; ++i) out[i] = x[i] * weight[i % cols];
    return;
  }
  scale<<<(rows * cols + 255) / 256, 256, 0, stream>>>(x, weight, out, rows * cols, cols);
}
