// attack: includes whatever the compiler says its own file is called
// expect: FORBIDDEN
// rule: include_path
// why: names that a macro computes are refused

#ifndef AGAIN
#define AGAIN
#include __FILE__
#endif
__global__ void scale(const float* x, const float* weight, float* out, int n, int cols) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) out[i] = x[i] * weight[i % cols];
}
extern "C" void launch(const float* x, const float* weight, float* out, int rows, int cols, cudaStream_t stream) {
  scale<<<(rows * cols + 255) / 256, 256, 0, stream>>>(x, weight, out, rows * cols, cols);
}
