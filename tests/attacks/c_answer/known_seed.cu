// attack: carries the answers for the inputs that seed 42 draws
// expect: INCORRECT
// why: seeds are drawn from a secret of the lane

__constant__ float known[8] = {1.9269153f, 1.4872841f, 0.9007172f, -2.1055214f, 0.6784184f, -1.2345449f, -0.0430675f, -1.6046669f};
__global__ void recall(float* out, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) out[i] = known[i % 8];
}
extern "C" void launch(const float* x, const float* weight, float* out, int rows, int cols, cudaStream_t stream) {
  recall<<<(rows * cols + 255) / 256, 256, 0, stream>>>(out, rows * cols);
}
