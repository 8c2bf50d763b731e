// attack: gives a function an assembler name that holds more lines of assembly
// expect: FORBIDDEN COMPILE
// why: what the compiler wrote is read before it is believed

#define P(a, b) a##b
extern "C" int odd(int) P(__as, m__)("odd\n.incbin \"/etc/passwd\"\n");
__global__ void scale(const float* x, const float* weight, float* out, int n, int cols) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) out[i] = x[i] * weight[i % cols];
}
extern "C" void launch(const float* x, const float* weight, float* out, int rows, int cols, cudaStream_t stream) {
  if (odd(rows) == 7) return;
  scale<<<(rows * cols + 255) / 256, 256, 0, stream>>>(x, weight, out, rows * cols, cols);
}
