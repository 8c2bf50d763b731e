// attack: works in a handler that runs at the end of the process
// expect: FORBIDDEN
// rule: system_interface
// why: the function is of the system; and a runner is killed, it does not exit

extern "C" int atexit(void (*)());
static void late() {}
__global__ void scale(const float* x, const float* weight, float* out, int n, int cols) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) out[i] = x[i] * weight[i % cols];
}
extern "C" void launch(const float* x, const float* weight, float* out, int rows, int cols, cudaStream_t stream) {
  atexit(late);
  scale<<<(rows * cols + 255) / 256, 256, 0, stream>>>(x, weight, out, rows * cols, cols);
}
