// attack: makes the code generated around it call another function, which does nothing
// expect: FORBIDDEN
// rule: macro_of_the_language
// why: such a macro is refused; and what is not computed is found missing

__global__ void scale(const float* x, const float* weight, float* out, int n, int cols) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) out[i] = x[i] * weight[i % cols];
}
extern "C" void launch(const float* x, const float* weight, float* out, int rows, int cols, cudaStream_t stream) {
  scale<<<(rows * cols + 255) / 256, 256, 0, stream>>>(x, weight, out, rows * cols, cols);
}
static void nothing(...) {}
#define launch nothing
