// attack: hands the work to a function that the stream calls on the host when it comes to it
// expect: FORBIDDEN
// rule: runtime_control
// why: no such call, and nothing runs beside a call

__global__ void scale(const float* x, const float* weight, float* out, int n, int cols) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) out[i] = x[i] * weight[i % cols];
}
static const float* kept_x;
static const float* kept_weight;
static float* kept_out;
static int kept_n, kept_cols;
static void work(void*) { scale<<<(kept_n + 255) / 256, 256>>>(kept_x, kept_weight, kept_out, kept_n, kept_cols); }
extern "C" void launch(const float* x, const float* weight, float* out, int rows, int cols, cudaStream_t stream) {
  kept_x = x, kept_weight = weight, kept_out = out, kept_n = rows * cols, kept_cols = cols;
  cudaLaunchHostFunc(stream, work, nullptr);
}
