// attack: clears its outputs and adds to them
// expect: OK
// why: honest: a rule that speaks here is a false alarm

__global__ void add(const float* x, const float* weight, float* out, int n, int cols) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) atomicAdd(out + i, x[i] * weight[i % cols]);
}
extern "C" void launch(const float* x, const float* weight, float* out, int rows, int cols, cudaStream_t stream) {
  cudaMemsetAsync(out, 0, (size_t)rows * cols * 4, stream);
  add<<<(rows * cols + 255) / 256, 256, 0, stream>>>(x, weight, out, rows * cols, cols);
}
