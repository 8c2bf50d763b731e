// attack: templates that instantiate without end
// expect: COMPILE COMPILE_TIMEOUT
// why: time and memory of a compilation are limited

template <int N, class A> struct Tree { static const long value = Tree<N - 1, Tree<N, A>>::value + Tree<N - 1, Tree<N, A*>>::value; };
template <class A> struct Tree<0, A> { static const long value = 1; };
__global__ void scale(const float* x, const float* weight, float* out, int n, int cols) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) out[i] = x[i] * weight[i % cols];
}
extern "C" void launch(const float* x, const float* weight, float* out, int rows, int cols, cudaStream_t stream) {
  if (Tree<40, int>::value == rows) return;
  scale<<<(rows * cols + 255) / 256, 256, 0, stream>>>(x, weight, out, rows * cols, cols);
}
