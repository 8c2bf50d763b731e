// attack: computes on the host in device memory
// expect: RUNTIME
// why: device memory is out of host code's reach in checked calls

extern "C" void launch(const float* x, const float* weight, float* out, int rows, int cols, cudaStream_t stream) {
  for (int i = 0; i < rows * cols; ++i) out[i] = x[i] * weight[i % cols];
}
