// attack: checks every runtime call by the usual macro
// expect: OK
// why: honest: a rule that speaks here is a false alarm

#include <cstdio>
#include <cstdlib>
#define CUDA_CHECK(call_)                                                                          \
  do {                                                                                             \
    cudaError_t error = (call_);                                                                   \
    if (error != cudaSuccess) {                                                                    \
      fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, cudaGetErrorString(error));               \
      exit(EXIT_FAILURE);                                                                          \
    }                                                                                              \
  } while (0)
__global__ void scale(const float* x, const float* weight, float* out, int n, int cols) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) out[i] = x[i] * weight[i % cols];
}
extern "C" void launch(const float* x, const float* weight, float* out, int rows, int cols, cudaStream_t stream) {
  scale<<<(rows * cols + 255) / 256, 256, 0, stream>>>(x, weight, out, rows * cols, cols);
  CUDA_CHECK(cudaGetLastError());
  CUDA_CHECK(cudaPeekAtLastError());
}
