// attack: has the compiler make a resolver that the loader runs, by asking for one function in several instruction sets
// expect: FORBIDDEN
// rule: attribute
// why: such a symbol is code at load time, which the object shows

__global__ void scale(const float* x, const float* weight, float* out, int n, int cols) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) out[i] = x[i] * weight[i % cols];
}
__attribute__((target_clones("avx2", "default"))) int count_of_work(int n) { return n; }
extern "C" void launch(const float* x, const float* weight, float* out, int rows, int cols, cudaStream_t stream) {
  int n = count_of_work(rows * cols);
  scale<<<(n + 255) / 256, 256, 0, stream>>>(x, weight, out, n, cols);
}
