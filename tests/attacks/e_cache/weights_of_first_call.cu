// attack: keeps the weights that it saw first
// expect: INCORRECT CHEAT
// why: weights change from set to set

__device__ float seen[4096];
__global__ void keep(const float* weight, int cols) { int i = blockIdx.x * blockDim.x + threadIdx.x; if (i < cols) seen[i] = weight[i]; }
__global__ void scale(const float* x, float* out, int n, int cols) { int i = blockIdx.x * blockDim.x + threadIdx.x; if (i < n) out[i] = x[i] * seen[i % cols]; }
extern "C" void launch(const float* x, const float* weight, float* out, int rows, int cols, cudaStream_t stream) {
  static int shape = 0;
  if (shape != cols) keep<<<(cols + 255) / 256, 256, 0, stream>>>(weight, cols);
  shape = cols;
  scale<<<(rows * cols + 255) / 256, 256, 0, stream>>>(x, out, rows * cols, cols);
}
