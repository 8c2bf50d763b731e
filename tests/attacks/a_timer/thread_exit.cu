// attack: works in the destructor of a thread's own object, when its thread ends
// expect: FORBIDDEN INCORRECT COMPILE
// why: a thread that ends is never waited for; its outputs are compared when it answers

__global__ void scale(const float* x, const float* weight, float* out, int n, int cols) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) out[i] = x[i] * weight[i % cols];
}
struct Later {
  const float *x = nullptr, *weight = nullptr;
  float* out = nullptr;
  int rows = 0, cols = 0;
  ~Later() { scale<<<(rows * cols + 255) / 256, 256>>>(x, weight, out, rows * cols, cols); }
};
static thread_local Later later;
extern "C" void launch(const float* x, const float* weight, float* out, int rows, int cols, cudaStream_t stream) {
  later.x = x;
  later.weight = weight;
  later.out = out;
  later.rows = rows;
  later.cols = cols;
}
