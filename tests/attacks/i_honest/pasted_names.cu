// attack: a macro that pastes names of its own kernels
// expect: OK
// why: honest: a rule that speaks here is a false alarm

#define KERNEL(type) __global__ void scale_##type(const type* x, const type* weight, type* out, int n, int cols) { \
    int i = blockIdx.x * blockDim.x + threadIdx.x; if (i < n) out[i] = x[i] * weight[i % cols]; }
KERNEL(float)
KERNEL(double)
extern "C" void launch(const float* x, const float* weight, float* out, int rows, int cols, cudaStream_t stream) {
  scale_float<<<(rows * cols + 255) / 256, 256, 0, stream>>>(x, weight, out, rows * cols, cols);
}
