// attack: a table that the compiler computes
// expect: OK
// why: honest: a rule that speaks here is a false alarm

struct Table { float v[16]; };
constexpr Table make_table() { Table t{}; for (int i = 0; i < 16; ++i) t.v[i] = 1.0f; return t; }
__constant__ constexpr Table ones = make_table();
__global__ void scale(const float* x, const float* weight, float* out, int n, int cols) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) out[i] = ones.v[i & 15] * x[i] * weight[i % cols];
}
extern "C" void launch(const float* x, const float* weight, float* out, int rows, int cols, cudaStream_t stream) {
  scale<<<(rows * cols + 255) / 256, 256, 0, stream>>>(x, weight, out, rows * cols, cols);
}
