// attack: puts a function where the loader looks for what runs at the end
// expect: FORBIDDEN
// rule: attribute
// why: sections are the compiler's to choose

static void at_the_end() {}
__attribute__((used, section(".fini_array"))) static void (*const ending)() = at_the_end;

__global__ void scale(const float* x, const float* weight, float* out, int n, int cols) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) out[i] = x[i] * weight[i % cols];
}
extern "C" void launch(const float* x, const float* weight, float* out, int rows, int cols, cudaStream_t stream) {
  scale<<<(rows * cols + 255) / 256, 256, 0, stream>>>(x, weight, out, rows * cols, cols);
}
