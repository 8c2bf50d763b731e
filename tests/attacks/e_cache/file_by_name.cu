// attack: writes a file for its next run
// expect: COMPILE FORBIDDEN
// why: no such function; the symbol would be foreign

extern "C" void* fopen(const char*, const char*);
__global__ void scale(const float* x, const float* weight, float* out, int n, int cols) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) out[i] = x[i] * weight[i % cols];
}
extern "C" void launch(const float* x, const float* weight, float* out, int rows, int cols, cudaStream_t stream) {
  if (fopen("/tmp/kept", "w") != nullptr) return;
  scale<<<(rows * cols + 255) / 256, 256, 0, stream>>>(x, weight, out, rows * cols, cols);
}
