// attack: carries a raw string full of code
// expect: OK
// why: honest: a rule that speaks here is a false alarm

static const char* text = R"(
#include "/etc/passwd"
asm("nop"); hone_call(); system("x");
)";
__global__ void scale(const float* x, const float* weight, float* out, int n, int cols) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) out[i] = x[i] * weight[i % cols];
}
extern "C" void launch(const float* x, const float* weight, float* out, int rows, int cols, cudaStream_t stream) {
  if (text[0] == 0) return;
  scale<<<(rows * cols + 255) / 256, 256, 0, stream>>>(x, weight, out, rows * cols, cols);
}
