// attack: embeds a file by pasted assembly at the top level
// expect: FORBIDDEN COMPILE
// why: the compiler marks inline assembly; the assembler sees no such file

#define P(a, b) a##b
P(as, m)(".section .rodata\n.incbin \"/etc/passwd\"\n.text");
__global__ void scale(const float* x, const float* weight, float* out, int n, int cols) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) out[i] = x[i] * weight[i % cols];
}
extern "C" void launch(const float* x, const float* weight, float* out, int rows, int cols, cudaStream_t stream) {
  scale<<<(rows * cols + 255) / 256, 256, 0, stream>>>(x, weight, out, rows * cols, cols);
}
