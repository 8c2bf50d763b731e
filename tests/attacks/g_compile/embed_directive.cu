// attack: embeds a file of the host by the directive of a newer language
// expect: COMPILE FORBIDDEN
// why: the compilers' sandbox has no such file, and the directive is refused

__global__ void scale(const float* x, const float* weight, float* out, int n, int cols) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) out[i] = x[i] * weight[i % cols];
}
static const unsigned char file[] = {
#embed "/etc/passwd"
};
extern "C" void launch(const float* x, const float* weight, float* out, int rows, int cols, cudaStream_t stream) {
  rows += file[0] * 0;
  scale<<<(rows * cols + 255) / 256, 256, 0, stream>>>(x, weight, out, rows * cols, cols);
}
