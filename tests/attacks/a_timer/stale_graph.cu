// attack: captures its launch once and replays it in every call, with the arguments of the first
// expect: CHEAT INCORRECT RUNTIME
// lane: device
// why: no two calls have the same addresses, and each call's own outputs are compared

__global__ void scale(const float* x, const float* weight, float* out, int n, int cols) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) out[i] = x[i] * weight[i % cols];
}
extern "C" void launch(const float* x, const float* weight, float* out, int rows, int cols, cudaStream_t stream) {
  static cudaGraphExec_t replayed = nullptr;
  if (replayed == nullptr) {
    cudaGraph_t graph;
    cudaStream_t own;
    cudaStreamCreate(&own);
    cudaStreamBeginCapture(own, cudaStreamCaptureModeRelaxed);
    scale<<<(rows * cols + 255) / 256, 256, 0, own>>>(x, weight, out, rows * cols, cols);
    cudaStreamEndCapture(own, &graph);
    cudaGraphInstantiate(&replayed, graph, 0);
  }
  cudaGraphLaunch(replayed, stream);
}
