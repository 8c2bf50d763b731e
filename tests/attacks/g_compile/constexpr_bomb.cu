// attack: a constant whose computation takes years
// expect: COMPILE COMPILE_TIMEOUT
// why: time of a compilation is limited, and so are steps of a constant

constexpr unsigned long spin(unsigned long n) { unsigned long v = 1; for (unsigned long i = 0; i < n; ++i) v = v * 3 + i; return v; }
constexpr unsigned long never = spin(1ul << 60);
__global__ void scale(const float* x, const float* weight, float* out, int n, int cols) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) out[i] = x[i] * weight[i % cols];
}
extern "C" void launch(const float* x, const float* weight, float* out, int rows, int cols, cudaStream_t stream) {
  if (never == rows) return;
  scale<<<(rows * cols + 255) / 256, 256, 0, stream>>>(x, weight, out, rows * cols, cols);
}
