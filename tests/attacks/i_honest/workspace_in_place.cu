// attack: works in scratch memory and in place before the result goes out
// expect: OK
// why: honest: a rule that speaks here is a false alarm

__global__ void copy(const float* x, float* t, int n) { int i = blockIdx.x * blockDim.x + threadIdx.x; if (i < n) t[i] = x[i]; }
__global__ void multiply(float* t, const float* weight, int n, int cols) { int i = blockIdx.x * blockDim.x + threadIdx.x; if (i < n) t[i] *= weight[i % cols]; }
extern "C" void launch(const float* x, const float* weight, float* out, int rows, int cols, cudaStream_t stream) {
  const int n = rows * cols;
  float* t = (float*)hone_workspace((size_t)n * sizeof(float));
  copy<<<(rows * cols + 255) / 256, 256, 0, stream>>>(x, t, n);
  multiply<<<(rows * cols + 255) / 256, 256, 0, stream>>>(t, weight, n, cols);
  copy<<<(rows * cols + 255) / 256, 256, 0, stream>>>(t, out, n);
}
