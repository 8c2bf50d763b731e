// attack: guesses the poison and writes NaN of each pattern it may have, hoping that such elements are not compared
// expect: INCORRECT CHEAT
// why: a NaN where the reference has none is wrong, whatever its bits

__global__ void guess(float* out, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  const unsigned half = 0x7ff1u + i % 15 + (i / 15 % 2 ? 0x8000u : 0);
  out[i] = __uint_as_float(half << 16 | half);
}
extern "C" void launch(const float* x, const float* weight, float* out, int rows, int cols, cudaStream_t stream) {
  guess<<<(rows * cols + 255) / 256, 256, 0, stream>>>(out, rows * cols);
}
