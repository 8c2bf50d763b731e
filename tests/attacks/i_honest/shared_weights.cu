// attack: weights through dynamic shared memory
// expect: OK
// why: honest: a rule that speaks here is a false alarm

__global__ void scale(const float* x, const float* weight, float* out, int cols) {
  extern __shared__ float w[];
  for (int c = threadIdx.x; c < cols; c += blockDim.x) w[c] = weight[c];
  __syncthreads();
  for (int c = threadIdx.x; c < cols; c += blockDim.x) out[(long)blockIdx.x * cols + c] = x[(long)blockIdx.x * cols + c] * w[c];
}
extern "C" void launch(const float* x, const float* weight, float* out, int rows, int cols, cudaStream_t stream) {
  scale<<<rows, 128, cols * sizeof(float), stream>>>(x, weight, out, cols);
}
