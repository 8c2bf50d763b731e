// attack: sums one column in eight and takes the rest to be like them
// expect: CHEAT INCORRECT
// task: softmax_rows
// why: its error is small beside the absolute tolerance, and large beside the outputs

__global__ void softmax(const float* x, float* out, int cols) {
  __shared__ float part[256];
  const float* row = x + (long long)blockIdx.x * cols;
  float sum = 0;
  int count = 0;
  for (int c = 8 * threadIdx.x; c < cols; c += 8 * 256) {
    sum += expf(row[c]);
    ++count;
  }
  part[threadIdx.x] = sum;
  __syncthreads();
  for (int k = 128; k > 0; k /= 2) {
    if (threadIdx.x < k) part[threadIdx.x] += part[threadIdx.x + k];
    __syncthreads();
  }
  const float all = part[0] * cols / ((cols + 7) / 8);
  for (int c = threadIdx.x; c < cols; c += 256) out[(long long)blockIdx.x * cols + c] = expf(row[c]) / all;
}
extern "C" void launch(const float* x, float* out, int rows, int cols, cudaStream_t stream) {
  softmax<<<rows, 256, 0, stream>>>(x, out, cols);
}
