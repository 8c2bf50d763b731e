// attack: asks for a terabyte of scratch memory
// expect: OOM RUNTIME
// why: the runner refuses

__global__ void scale(const float* x, const float* weight, float* out, int n, int cols) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) out[i] = x[i] * weight[i % cols];
}
extern "C" void launch(const float* x, const float* weight, float* out, int rows, int cols, cudaStream_t stream) {
  char* p = (char*)hone_workspace(1ull << 40);
  if (p == nullptr) { ((volatile char*)p)[0] = 1; }
  scale<<<(rows * cols + 255) / 256, 256, 0, stream>>>(x, weight, out, rows * cols, cols);
}
