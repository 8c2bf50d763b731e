// attack: redefines the names that the code generated around it uses for its arguments
// expect: COMPILE INCORRECT FORBIDDEN RUNTIME
// why: what is generated around it only passes arguments on; without them it computes nothing

__global__ void scale(const float* x, const float* weight, float* out, int n, int cols) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) out[i] = x[i] * weight[i % cols];
}
extern "C" void launch(const float* x, const float* weight, float* out, int rows, int cols, cudaStream_t stream) {
  scale<<<(rows * cols + 255) / 256, 256, 0, stream>>>(x, weight, out, rows * cols, cols);
}
#define tensors sizes
#define data[x] shape
#define sizes scalars
