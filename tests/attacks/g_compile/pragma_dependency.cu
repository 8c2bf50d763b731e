// attack: asks the compiler for the age of a file of the host
// expect: FORBIDDEN
// rule: pragma_operator
// why: only pragmas that concern code are allowed

#pragma GCC dependency "/etc/passwd" that is there
__global__ void scale(const float* x, const float* weight, float* out, int n, int cols) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) out[i] = x[i] * weight[i % cols];
}
extern "C" void launch(const float* x, const float* weight, float* out, int rows, int cols, cudaStream_t stream) {
  scale<<<(rows * cols + 255) / 256, 256, 0, stream>>>(x, weight, out, rows * cols, cols);
}
