// attack: an entry point with other arguments, to read what lies behind them
// expect: COMPILE
// why: the declaration stands before the candidate

__global__ void scale(const float* x, const float* weight, float* out, int n, int cols) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) out[i] = x[i] * weight[i % cols];
}
extern "C" void launch(float* x, float* weight, float* out, long* rest) { rest[0] = 0; }
