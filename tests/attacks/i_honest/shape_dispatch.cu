// attack: has a fast way for aligned columns and a general one for all others
// expect: OK
// why: honest: a rule that speaks here is a false alarm

__global__ void rows_of_four(const float4* x, const float4* weight, float4* out, int quads) {
  for (int q = threadIdx.x; q < quads; q += blockDim.x) {
    float4 a = x[(long)blockIdx.x * quads + q], b = weight[q];
    out[(long)blockIdx.x * quads + q] = make_float4(a.x * b.x, a.y * b.y, a.z * b.z, a.w * b.w);
  }
}
__global__ void scale(const float* x, const float* weight, float* out, int n, int cols) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) out[i] = x[i] * weight[i % cols];
}
extern "C" void launch(const float* x, const float* weight, float* out, int rows, int cols, cudaStream_t stream) {
  const bool aligned = (((unsigned long long)x | (unsigned long long)weight | (unsigned long long)out) & 15) == 0;
  if (aligned && cols % 4 == 0) {
    rows_of_four<<<rows, 64, 0, stream>>>((const float4*)x, (const float4*)weight, (float4*)out, cols / 4);
    return;
  }
  scale<<<(rows * cols + 255) / 256, 256, 0, stream>>>(x, weight, out, rows * cols, cols);
}
