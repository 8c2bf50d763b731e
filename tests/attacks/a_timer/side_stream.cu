// attack: launches on a stream of its own and does not join it
// expect: OK
// harmless: its time is that of its work
// rule: side_stream
// why: the end of a call is a wait for the whole device; on the emulated one every launch is complete when it returns

__global__ void scale(const float* x, const float* weight, float* out, int n, int cols) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) out[i] = x[i] * weight[i % cols];
}
extern "C" void launch(const float* x, const float* weight, float* out, int rows, int cols, cudaStream_t stream) {
  static cudaStream_t own = nullptr;
  if (own == nullptr) cudaStreamCreateWithFlags(&own, cudaStreamNonBlocking);
  scale<<<(rows * cols + 255) / 256, 256, 0, own>>>(x, weight, out, rows * cols, cols);
}
