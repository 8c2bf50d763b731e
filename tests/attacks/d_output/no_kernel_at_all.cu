// attack: the same without any launch
// expect: CHEAT
// rule: zero_launches
// why: no kernel was launched

extern "C" void launch(const float* x, const float* weight, float* out, int rows, int cols, cudaStream_t stream) {
  static float a[1 << 18], b[1 << 12];
  cudaMemcpy(a, x, (size_t)rows * cols * 4, cudaMemcpyDeviceToHost);
  cudaMemcpy(b, weight, (size_t)cols * 4, cudaMemcpyDeviceToHost);
  for (int i = 0; i < rows * cols; ++i) a[i] *= b[i % cols];
  cudaMemcpy(out, a, (size_t)rows * cols * 4, cudaMemcpyHostToDevice);
}
