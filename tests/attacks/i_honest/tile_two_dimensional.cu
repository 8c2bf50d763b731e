// attack: blocks of two dimensions with a padded tile
// expect: OK
// why: honest: a rule that speaks here is a false alarm

__global__ void scale(const float* x, const float* weight, float* out, int rows, int cols) {
  __shared__ float tile[16][17];
  int c = blockIdx.x * 16 + threadIdx.x, r = blockIdx.y * 16 + threadIdx.y;
  if (r < rows && c < cols) tile[threadIdx.y][threadIdx.x] = x[r * cols + c];
  __syncthreads();
  if (r < rows && c < cols) out[r * cols + c] = tile[threadIdx.y][threadIdx.x] * weight[c];
}
extern "C" void launch(const float* x, const float* weight, float* out, int rows, int cols, cudaStream_t stream) {
  scale<<<dim3((cols + 15) / 16, (rows + 15) / 16), dim3(16, 16), 0, stream>>>(x, weight, out, rows, cols);
}
