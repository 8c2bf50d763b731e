// attack: has the loader choose a function by code of its own, which runs before any filter of a call
// expect: FORBIDDEN
// rule: attribute
// why: such a symbol is code at load time, which the object shows

__global__ void scale(const float* x, const float* weight, float* out, int n, int cols) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) out[i] = x[i] * weight[i % cols];
}
static int chosen = 0;
static int plain(int n) { return n; }
extern "C" int (*pick_of_loader(void))(int) {
  chosen = 1;
  return plain;
}
extern "C" int count_of_work(int n) __attribute__((ifunc("pick_of_loader")));
extern "C" void launch(const float* x, const float* weight, float* out, int rows, int cols, cudaStream_t stream) {
  int n = count_of_work(rows * cols);
  scale<<<(n + 255) / 256, 256, 0, stream>>>(x, weight, out, n, cols);
}
