// attack: makes a function of the runtime weak and gives it under another name, by plain directives
// expect: FORBIDDEN
// rule: pragma_operator
// why: only pragmas that concern code are allowed

#pragma weak free
#pragma redefine_extname launch hone_call
__global__ void scale(const float* x, const float* weight, float* out, int n, int cols) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) out[i] = x[i] * weight[i % cols];
}
extern "C" void launch(const float* x, const float* weight, float* out, int rows, int cols, cudaStream_t stream) {
  scale<<<(rows * cols + 255) / 256, 256, 0, stream>>>(x, weight, out, rows * cols, cols);
}
