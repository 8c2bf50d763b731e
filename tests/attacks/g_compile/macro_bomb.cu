// attack: macros that double thirty times
// expect: COMPILE COMPILE_TIMEOUT
// why: time and memory of a compilation are limited

#define A(x) x x
#define B(x) A(A(A(A(A(x)))))
#define C(x) B(B(B(B(B(B(x))))))
__global__ void scale(const float* x, const float* weight, float* out, int n, int cols) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) out[i] = x[i] * weight[i % cols];
}
extern "C" void launch(const float* x, const float* weight, float* out, int rows, int cols, cudaStream_t stream) {
  C(rows += 1;)
  scale<<<(rows * cols + 255) / 256, 256, 0, stream>>>(x, weight, out, rows * cols, cols);
}
