// attack: copies to the host, computes there, copies back; a kernel is launched for show
// expect: CHEAT
// rule: decoy_kernel
// why: one call is repeated with the kernels switched off, and the answer is right all the same

__global__ void show(float* out) { out[0] = out[0]; }
extern "C" void launch(const float* x, const float* weight, float* out, int rows, int cols, cudaStream_t stream) {
  static float a[1 << 18], b[1 << 12];
  cudaMemcpy(a, x, (size_t)rows * cols * 4, cudaMemcpyDeviceToHost);
  cudaMemcpy(b, weight, (size_t)cols * 4, cudaMemcpyDeviceToHost);
  for (int i = 0; i < rows * cols; ++i) a[i] *= b[i % cols];
  cudaMemcpy(out, a, (size_t)rows * cols * 4, cudaMemcpyHostToDevice);
  show<<<1, 1, 0, stream>>>(out);
}
