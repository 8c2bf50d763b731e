// attack: C as it was: goto, register names of system calls, K&R macros, a union, a switch that falls through, printf for errors
// expect: OK
// why: honest: a rule that speaks here is a false alarm

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CHECK(call)                                                         \
  do {                                                                      \
    cudaError_t error = (call);                                             \
    if (error != cudaSuccess) {                                             \
      printf("%s at %s:%d\n", cudaGetErrorString(error), __FILE__, __LINE__); \
      return;                                                               \
    }                                                                       \
  } while (0)

typedef union {
  float4 wide;
  float narrow[4];
} four;

__global__ void scale(const float* x, const float* weight, float* out, int n, int cols) {
  int open = blockIdx.x * blockDim.x + threadIdx.x, read = 0;
  four write;
again:
  if (open * 4 + read >= n) goto close;
  switch (read) {
    case 0:
    case 1:
    case 2:
    case 3:
      write.narrow[read] = x[open * 4 + read];
      out[open * 4 + read] = write.narrow[read] * weight[(open * 4 + read) % cols];
      break;
    default:
      goto close;
  }
  ++read;
  if (read < 4) goto again;
close:
  return;
}

extern "C" void launch(const float* x, const float* weight, float* out, int rows, int cols, cudaStream_t stream) {
  int sizes[2];
  memset(sizes, 0, sizeof(sizes));
  sizes[0] = rows, sizes[1] = cols;
  scale<<<dim3((unsigned)((sizes[0] * sizes[1] + 1023) / 1024)), dim3(256), 0, stream>>>(x, weight, out, sizes[0] * sizes[1], sizes[1]);
  CHECK(cudaGetLastError());
}
