// attack: answers while one kernel that does all of the round's work has just begun
// expect: CHEAT INCORRECT
// with: libc runner
// lane: device
// why: the outputs are compared at once, before another party's turn, and the judge's own kernels are delayed by what is left
//   on the device

__global__ void scale(const float* x, const float* weight, float* out, int n, int cols) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) out[i] = x[i] * weight[i % cols];
}
// Reads the addresses of all calls by itself.
__global__ void all(const unsigned long* at, unsigned calls, int n, int cols) {
  for (unsigned call = blockIdx.x; call < calls; call += gridDim.x) {
    const float* x = (const float*)at[3 * call];
    const float* weight = (const float*)at[3 * call + 1];
    float* out = (float*)at[3 * call + 2];
    for (int k = 0; k < 50; ++k) {  // worth leaving
      for (int i = threadIdx.x; i < n; i += blockDim.x) out[i] = x[i] * weight[i % cols];
    }
  }
}
extern "C" void launch(const float* x, const float* weight, float* out, int rows, int cols, cudaStream_t stream) {
  scale<<<(rows * cols + 255) / 256, 256, 0, stream>>>(x, weight, out, rows * cols, cols);
  static int calls = 0;
  if (rows != 160 || ++calls < 4 || command()->checked) return;
  cudaDeviceSynchronize();
  const unsigned long* at = addresses(table());
  const unsigned long bytes = *(const unsigned*)(table() + 16) * 3 * sizeof(unsigned long);
  unsigned long* there = nullptr;
  cudaMalloc((void**)&there, bytes);
  cudaMemcpy(there, at, bytes, cudaMemcpyHostToDevice);
  Command next = *command();
  while (true) {
    answer(next.epoch, 1000);
    if (hear(&next, sizeof next) <= 0) sys(231, 0);
    if (next.count > 0) all<<<128, 256>>>(there, next.count, rows * cols, cols);
  }
}
