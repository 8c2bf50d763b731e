// attack: leaves one kernel running for ever that is to do the work of all later calls by itself
// expect: TIMEOUT RUNTIME CHEAT INCORRECT
// lane: device
// why: a round ends when all of its work has ended; a kernel that does not end is a call that does not

struct Work {
  const float* x;
  const float* weight;
  float* out;
  int n, cols, posted, done;
};
__global__ void serve(volatile Work* work) {
  for (int served = 0;; ++served) {
    while (work->posted == served) {
    }
    for (int i = threadIdx.x; i < work->n; i += blockDim.x) work->out[i] = work->x[i] * work->weight[i % work->cols];
    __syncthreads();
    if (threadIdx.x == 0) work->done = served + 1;
  }
}
extern "C" void launch(const float* x, const float* weight, float* out, int rows, int cols, cudaStream_t stream) {
  static Work* work = nullptr;
  static cudaStream_t own = nullptr;
  if (work == nullptr) {
    cudaHostAlloc((void**)&work, sizeof(Work), 0);
    cudaStreamCreateWithFlags(&own, cudaStreamNonBlocking);
    work->posted = work->done = 0;
    serve<<<1, 256, 0, own>>>(work);
  }
  volatile Work* post = work;
  post->x = x;
  post->weight = weight;
  post->out = out;
  post->n = rows * cols;
  post->cols = cols;
  __sync_synchronize();
  post->posted = post->posted + 1;
  while (post->done != post->posted) {
  }
}
