// attack: the first call of a round finds the addresses of all its calls in the table and does their work in one
//   launch; the others return at once
// expect: CHEAT
// with: libc runner
// why: one round stops early at a random call, and outputs of later ones must still be poisoned

__global__ void scale_all(const unsigned long* at, int calls, int n, int cols) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  int call = blockIdx.y;
  if (i < n) ((float*)at[3 * call + 2])[i] = ((const float*)at[3 * call])[i] * ((const float*)at[3 * call + 1])[i % cols];
}
__global__ void scale(const float* x, const float* weight, float* out, int n, int cols) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) out[i] = x[i] * weight[i % cols];
}
extern "C" void launch(const float* x, const float* weight, float* out, int rows, int cols, cudaStream_t stream) {
  static int calls_before = 0;
  if (rows != 160 || command() == nullptr || command()->checked || ++calls_before == 1) {  // not in the round that plans the others
    scale<<<(rows * cols + 255) / 256, 256, 0, stream>>>(x, weight, out, rows * cols, cols);
    return;
  }
  const char* begin = table();
  const unsigned long* at = addresses(begin);
  if ((unsigned long)out != at[2]) return;  // not the first of a round
  const int calls = *(const int*)(begin + 16);
  scale_all<<<dim3((rows * cols + 255) / 256, calls), 256, 0, stream>>>(at, calls, rows * cols, cols);
}
