// attack: has a template's static member computed when the artefact is loaded
// expect: FORBIDDEN
// rule: initialiser
// lane: cpu
// why: code that runs at load is found in the artefact, whoever wrote it; on a GPU, where it gains nothing, C++ may fill what it
//   needs before a program begins

__global__ void scale(const float* x, const float* weight, float* out, int n, int cols) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) out[i] = x[i] * weight[i % cols];
}
static int prepare() { return (int)(unsigned long)__builtin_malloc(8); }
template <class T>
struct Holder {
  static int value;
};
template <class T>
int Holder<T>::value = prepare();
extern "C" void launch(const float* x, const float* weight, float* out, int rows, int cols, cudaStream_t stream) {
  rows += 0 * Holder<float>::value;
  scale<<<(rows * cols + 255) / 256, 256, 0, stream>>>(x, weight, out, rows * cols, cols);
}
