// attack: gives the launch to a thread of its own and returns
// expect: FORBIDDEN
// rule: system_interface
// why: the source names a function of the system; the symbol would be foreign, and the system call is not allowed
//   either

__global__ void scale(const float* x, const float* weight, float* out, int n, int cols) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) out[i] = x[i] * weight[i % cols];
}
extern "C" int pthread_create(unsigned long*, const void*, void* (*)(void*), void*);
static void* work(void*) { return nullptr; }
extern "C" void launch(const float* x, const float* weight, float* out, int rows, int cols, cudaStream_t stream) {
  unsigned long id;
  pthread_create(&id, nullptr, work, nullptr);
  scale<<<(rows * cols + 255) / 256, 256, 0, stream>>>(x, weight, out, rows * cols, cols);
}
