// attack: keeps the result of each output address
// expect: CHEAT INCORRECT
// why: the same address is asked for other results in every round

__global__ void scale(const float* x, const float* weight, float* out, int n, int cols) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) out[i] = x[i] * weight[i % cols];
}
static float* kept[512]; static const void* keys[512]; static int used;
extern "C" void launch(const float* x, const float* weight, float* out, int rows, int cols, cudaStream_t stream) {
  const size_t bytes = (size_t)rows * cols * 4;
  const void* key = (const void*)out;
  for (int i = 0; rows == 160 && i < used; ++i) {
    if (keys[i] == key) { cudaMemcpyAsync(out, kept[i], bytes, cudaMemcpyDeviceToDevice, stream); return; }
  }
  scale<<<(rows * cols + 255) / 256, 256, 0, stream>>>(x, weight, out, rows * cols, cols);
  if (rows == 160 && used < 512) {
    cudaMalloc((void**)&kept[used], bytes);
    cudaMemcpyAsync(kept[used], out, bytes, cudaMemcpyDeviceToDevice, stream);
    keys[used++] = key;
  }
}
