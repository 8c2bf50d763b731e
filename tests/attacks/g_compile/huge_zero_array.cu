// attack: sixty-four gigabytes of zeros, which cost the compiler nothing
// expect: COMPILE RUNTIME OOM FORBIDDEN
// harmless: on a GPU: memory that nobody touches is none
// why: private memory of a runner is limited

static char big[64000000000];
__global__ void scale(const float* x, const float* weight, float* out, int n, int cols) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) out[i] = x[i] * weight[i % cols];
}
extern "C" void launch(const float* x, const float* weight, float* out, int rows, int cols, cudaStream_t stream) {
  if (big[rows] == 7) big[rows + 1] = 3;
  scale<<<(rows * cols + 255) / 256, 256, 0, stream>>>(x, weight, out, rows * cols, cols);
}
