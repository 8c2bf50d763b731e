// attack: halves of the work on two streams, joined by events
// expect: OK
// flags: side_stream
// why: honest: a rule that speaks here is a false alarm

__global__ void scale(const float* x, const float* weight, float* out, int begin, int end, int cols) {
  int i = begin + blockIdx.x * blockDim.x + threadIdx.x;
  if (i < end) out[i] = x[i] * weight[i % cols];
}
extern "C" void launch(const float* x, const float* weight, float* out, int rows, int cols, cudaStream_t stream) {
  static cudaStream_t side = nullptr;
  static cudaEvent_t begin, done;
  if (side == nullptr) {
    cudaStreamCreateWithFlags(&side, cudaStreamNonBlocking);
    cudaEventCreateWithFlags(&begin, cudaEventDisableTiming);
    cudaEventCreateWithFlags(&done, cudaEventDisableTiming);
  }
  const int n = rows * cols, half = n / 2;
  cudaEventRecord(begin, stream);
  cudaStreamWaitEvent(side, begin, 0);
  scale<<<(half + 255) / 256 + 1, 256, 0, stream>>>(x, weight, out, 0, half, cols);
  scale<<<(n - half + 255) / 256 + 1, 256, 0, side>>>(x, weight, out, half, n, cols);
  cudaEventRecord(done, side);
  cudaStreamWaitEvent(stream, done, 0);
}
