// attack: computes in the first call of the timed process, and copies from then on
// expect: CHEAT
// rule: replayed_output
// why: the outputs are the answers of another call

__global__ void scale(const float* x, const float* weight, float* out, int n, int cols) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) out[i] = x[i] * weight[i % cols];
}
extern "C" void launch(const float* x, const float* weight, float* out, int rows, int cols, cudaStream_t stream) {
  static float* kept = nullptr;
  static int calls = 0;
  const size_t bytes = (size_t)rows * cols * 4;
  if (rows != 160 || ++calls < 2) {
    scale<<<(rows * cols + 255) / 256, 256, 0, stream>>>(x, weight, out, rows * cols, cols);
    if (rows == 160) {
      cudaMalloc((void**)&kept, bytes);
      cudaMemcpyAsync(kept, out, bytes, cudaMemcpyDeviceToDevice, stream);
    }
    return;
  }
  cudaMemcpyAsync(out, kept, bytes, cudaMemcpyDeviceToDevice, stream);
}
