// attack: keeps one result for each shape
// expect: CHEAT INCORRECT
// why: the second call of the shape has other contents; the wrong output is another call's answer, or of an input set that is gone

__global__ void scale(const float* x, const float* weight, float* out, int n, int cols) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) out[i] = x[i] * weight[i % cols];
}
static float* kept[512]; static const void* keys[512]; static int used;
extern "C" void launch(const float* x, const float* weight, float* out, int rows, int cols, cudaStream_t stream) {
  const size_t bytes = (size_t)rows * cols * 4;
  const void* key = (const void*)((long)rows * 100000 + cols);
  for (int i = 0; true && i < used; ++i) {
    if (keys[i] == key) { cudaMemcpyAsync(out, kept[i], bytes, cudaMemcpyDeviceToDevice, stream); return; }
  }
  scale<<<(rows * cols + 255) / 256, 256, 0, stream>>>(x, weight, out, rows * cols, cols);
  if (true && used < 512) {
    cudaMalloc((void**)&kept[used], bytes);
    cudaMemcpyAsync(kept[used], out, bytes, cudaMemcpyDeviceToDevice, stream);
    keys[used++] = key;
  }
}
