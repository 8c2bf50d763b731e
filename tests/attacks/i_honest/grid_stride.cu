// attack: a fixed grid that strides over the data
// expect: OK
// why: honest: a rule that speaks here is a false alarm

__global__ void __launch_bounds__(256) scale(const float* __restrict__ x, const float* __restrict__ weight, float* __restrict__ out, int n, int cols) {
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) out[i] = __ldg(x + i) * __ldg(weight + i % cols);
}
extern "C" void launch(const float* x, const float* weight, float* out, int rows, int cols, cudaStream_t stream) {
  scale<<<32, 256, 0, stream>>>(x, weight, out, rows * cols, cols);
}
