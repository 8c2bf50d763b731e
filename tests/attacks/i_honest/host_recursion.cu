// attack: computes its grid by recursion and a switch with jumps
// expect: OK
// why: honest: a rule that speaks here is a false alarm

static int ceil_log2(int n) { return n <= 1 ? 0 : 1 + ceil_log2((n + 1) / 2); }
__global__ void scale(const float* x, const float* weight, float* out, int n, int cols) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) out[i] = x[i] * weight[i % cols];
}
extern "C" void launch(const float* x, const float* weight, float* out, int rows, int cols, cudaStream_t stream) {
  int block = 1 << (ceil_log2(cols) > 8 ? 8 : 5);
  if (block < 32) goto small;
    goto run;
  small:
    block = 32;
  run:
  scale<<<(rows * cols + block - 1) / block, block, 0, stream>>>(x, weight, out, rows * cols, cols);
}
