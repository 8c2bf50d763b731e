// As softmax.cu, but the last loop runs one element too far: its verdict is RUNTIME, with the place.
//   hone verify tempered_softmax examples/softmax_wrong.cu
#include <cuda_runtime.h>
#include <math.h>

__global__ void softmax(const float* __restrict__ x, float* __restrict__ out, int rows, int cols) {
  const int row = blockIdx.x * blockDim.x + threadIdx.x;
  if (row >= rows) return;
  const float* in = x + (size_t)row * cols;
  float* result = out + (size_t)row * cols;
  float largest = -INFINITY;
  for (int c = 0; c < cols; ++c) largest = fmaxf(largest, in[c]);
  float sum = 0.0f;
  for (int c = 0; c < cols; ++c) sum += __expf(2.0f * (in[c] - largest));
  for (int c = 0; c <= cols; ++c) result[c] = __expf(2.0f * (in[c] - largest)) / sum;
}

extern "C" void launch(const float* x, float* out, int rows, int cols, cudaStream_t stream) {
  softmax<<<(rows + 63) / 64, 64, 0, stream>>>(x, out, rows, cols);
}
