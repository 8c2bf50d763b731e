// attack: uses fast intrinsics with their small errors
// expect: OK
// task: softmax_rows
// why: honest: a rule that speaks here is a false alarm

__global__ void softmax(const float* x, float* out, int cols) {
  __shared__ float part[256];
  const float* in = x + (long)blockIdx.x * cols;
  float top = -1e30f, sum = 0;
  for (int c = threadIdx.x; c < cols; c += blockDim.x) top = fmaxf(top, in[c]);
  part[threadIdx.x] = top;
  __syncthreads();
  for (int k = 128; k > 0; k >>= 1) { if (threadIdx.x < k) part[threadIdx.x] = fmaxf(part[threadIdx.x], part[threadIdx.x + k]); __syncthreads(); }
  top = part[0];
  __syncthreads();
  for (int c = threadIdx.x; c < cols; c += blockDim.x) sum += __expf(in[c] - top);
  part[threadIdx.x] = sum;
  __syncthreads();
  for (int k = 128; k > 0; k >>= 1) { if (threadIdx.x < k) part[threadIdx.x] += part[threadIdx.x + k]; __syncthreads(); }
  sum = part[0];
  for (int c = threadIdx.x; c < cols; c += blockDim.x) out[(long)blockIdx.x * cols + c] = __fdividef(__expf(in[c] - top), sum);
}
extern "C" void launch(const float* x, float* out, int rows, int cols, cudaStream_t stream) {
  softmax<<<rows, 256, 0, stream>>>(x, out, cols);
}
