// attack: gives a running product of neighbours, right only where threads run one after the other
// expect: INCORRECT
// why: checked calls run threads backwards and shuffled

__device__ float carry;
__global__ void k(const float* x, const float* weight, float* out, int n, int cols) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) { if (i == 0) carry = 0; carry = i; out[i] = carry == i && (i == 0 || out[i - 1] == out[i - 1]) ? x[i] * weight[i % cols] : 0; }
}
extern "C" void launch(const float* x, const float* weight, float* out, int rows, int cols, cudaStream_t stream) {
  k<<<(rows * cols + 255) / 256, 256, 0, stream>>>(x, weight, out, rows * cols, cols);
}
