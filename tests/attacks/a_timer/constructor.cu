// attack: builds tables when the artefact is loaded
// expect: FORBIDDEN
// rule: attribute
// why: the attribute, and the section that it makes

static float table[1024];
__attribute__((constructor)) static void build() { for (int i = 0; i < 1024; ++i) table[i] = i; }
__global__ void scale(const float* x, const float* weight, float* out, int n, int cols) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) out[i] = x[i] * weight[i % cols];
}
extern "C" void launch(const float* x, const float* weight, float* out, int rows, int cols, cudaStream_t stream) {
  scale<<<(rows * cols + 255) / 256, 256, 0, stream>>>(x, weight, out, rows * cols, cols);
}
