// attack: a global whose initialiser runs at load time
// expect: FORBIDDEN
// rule: initialiser
// harmless: on a GPU, where C++ may fill tables before a program begins: nothing is timed then, and no kernel has run
// why: code that runs when the artefact is loaded is in no allowed section

extern "C" float expf(float);
static int work() { float v = 0; for (int i = 0; i < 1000; ++i) v += expf(v); return (int)v; }
static int ready = work();
__global__ void scale(const float* x, const float* weight, float* out, int n, int cols) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) out[i] = x[i] * weight[i % cols];
}
extern "C" void launch(const float* x, const float* weight, float* out, int rows, int cols, cudaStream_t stream) {
  if (ready == 77) return;
  scale<<<(rows * cols + 255) / 256, 256, 0, stream>>>(x, weight, out, rows * cols, cols);
}
