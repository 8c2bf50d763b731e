// attack: computes on the host and has a kernel copy what the host computed
// expect: OK
// harmless: all of the work is done in each call, and charged; on a GPU it costs the way to the host and back
// why: on the emulated device host code may beat emulated kernels, whose figures say that they are emulated

__global__ void copy(const float* from, float* out, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) out[i] = from[i];
}
extern "C" void launch(const float* x, const float* weight, float* out, int rows, int cols, cudaStream_t stream) {
  const int n = rows * cols;
  static float here[1 << 16], weights[1 << 10];
  cudaMemcpy(here, x, sizeof(float) * n, cudaMemcpyDeviceToHost);
  cudaMemcpy(weights, weight, sizeof(float) * cols, cudaMemcpyDeviceToHost);
  for (int i = 0; i < n; ++i) here[i] *= weights[i % cols];
  float* there = nullptr;
  cudaMalloc((void**)&there, sizeof(float) * n);
  cudaMemcpy(there, here, sizeof(float) * n, cudaMemcpyHostToDevice);
  copy<<<(n + 255) / 256, 256, 0, stream>>>(there, out, n);
  cudaStreamSynchronize(stream);
  cudaFree(there);
}
