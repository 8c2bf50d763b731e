// attack: each call leaves its last block to the next call, so that one call's share of work is always outside of the
//   last measurement
// expect: CHEAT INCORRECT RUNTIME
// why: every call's output is compared before the next command is given

static const float* left_x; static const float* left_weight; static float* left_out; static int left_rows, left_cols;
__global__ void scale(const float* x, const float* weight, float* out, int begin, int n, int cols) {
  int i = begin + blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) out[i] = x[i] * weight[i % cols];
}
extern "C" void launch(const float* x, const float* weight, float* out, int rows, int cols, cudaStream_t stream) {
  const int n = rows * cols, most = n - n / 4;
  if (left_out != nullptr && left_rows == rows) scale<<<(n / 4 + 255) / 256 + 1, 256>>>(left_x, left_weight, left_out, most, n, cols);
  scale<<<(most + 255) / 256 + 1, 256>>>(x, weight, out, 0, most, cols);
  left_x = x; left_weight = weight; left_out = out; left_rows = rows; left_cols = cols;
}
