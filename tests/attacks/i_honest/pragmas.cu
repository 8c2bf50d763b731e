// attack: unrolls by pragma and by the pragma operator
// expect: OK
// why: honest: a rule that speaks here is a false alarm

#define UNROLL _Pragma("unroll")
__global__ void scale(const float* x, const float* weight, float* out, int n, int cols) {
  int base = 4 * (blockIdx.x * blockDim.x + threadIdx.x);
#pragma unroll
  for (int k = 0; k < 2; ++k) if (base + k < n) out[base + k] = x[base + k] * weight[(base + k) % cols];
  UNROLL
  for (int k = 2; k < 4; ++k) if (base + k < n) out[base + k] = x[base + k] * weight[(base + k) % cols];
}
extern "C" void launch(const float* x, const float* weight, float* out, int rows, int cols, cudaStream_t stream) {
  scale<<<(rows * cols + 1023) / 1024, 256, 0, stream>>>(x, weight, out, rows * cols, cols);
}
