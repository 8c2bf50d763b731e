// attack: templates, a functor and constants known to the compiler
// expect: OK
// why: honest: a rule that speaks here is a false alarm

template <class T> struct Multiply { __device__ T operator()(T a, T b) const { return a * b; } };
template <int kBlock, class T, class F>
__global__ void map(const T* x, const T* weight, T* out, int n, int cols, F f) {
  int i = blockIdx.x * kBlock + threadIdx.x;
  if (i < n) out[i] = f(x[i], weight[i % cols]);
}
constexpr int kThreads = 128;
extern "C" void launch(const float* x, const float* weight, float* out, int rows, int cols, cudaStream_t stream) {
  map<kThreads><<<(rows * cols + kThreads - 1) / kThreads, kThreads, 0, stream>>>(x, weight, out, rows * cols, cols, Multiply<float>());
}
