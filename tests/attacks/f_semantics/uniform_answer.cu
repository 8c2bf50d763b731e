// attack: one over the number of columns, near every output
// expect: CHEAT INCORRECT
// task: softmax_rows
// why: errors far above the reference's

__device__ float narrow(float v) { return 1.0f / 3000; }
__global__ void softmax(const float* x, float* out, int cols) {
  const float* in = x + (long)blockIdx.x * cols;
  float* to = out + (long)blockIdx.x * cols;
  float top = -1e30f, sum = 0;
  for (int c = 0; c < cols; ++c) top = fmaxf(top, in[c]);
  for (int c = 0; c < cols; ++c) sum += expf(in[c] - top);
  for (int c = 0; c < cols; ++c) to[c] = 1.0f / cols;
}
extern "C" void launch(const float* x, float* out, int rows, int cols, cudaStream_t stream) {
  softmax<<<rows, 1, 0, stream>>>(x, out, cols);
}
