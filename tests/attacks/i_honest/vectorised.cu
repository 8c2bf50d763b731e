// attack: loads four values at a time where addresses allow, and one at a time where not
// expect: OK
// why: honest: a rule that speaks here is a false alarm

__global__ void scale4(const float4* x, const float* weight, float4* out, int quads, int cols) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= quads) return;
  float4 v = x[i];
  int c = (4 * i) % cols;
  v.x *= weight[c]; v.y *= weight[(c + 1) % cols]; v.z *= weight[(c + 2) % cols]; v.w *= weight[(c + 3) % cols];
  out[i] = v;
}
__global__ void scale(const float* x, const float* weight, float* out, int n, int cols) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) out[i] = x[i] * weight[i % cols];
}
extern "C" void launch(const float* x, const float* weight, float* out, int rows, int cols, cudaStream_t stream) {
  const int n = rows * cols;
  if (n % 4 == 0 && ((unsigned long long)x | (unsigned long long)out) % 16 == 0) {
    scale4<<<(n / 4 + 255) / 256, 256, 0, stream>>>((const float4*)x, weight, (float4*)out, n / 4, cols);
    return;
  }
  scale<<<(rows * cols + 255) / 256, 256, 0, stream>>>(x, weight, out, rows * cols, cols);
}
