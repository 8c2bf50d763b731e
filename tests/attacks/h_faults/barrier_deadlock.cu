// attack: a barrier that half of the threads never reach
// expect: RUNTIME
// why: the device notices

__global__ void k(float* out) {
  if (threadIdx.x < 16) while (true) __syncwarp();
  __syncthreads();
  out[threadIdx.x] = 1;
}
extern "C" void launch(const float* x, const float* weight, float* out, int rows, int cols, cudaStream_t stream) {
  k<<<1, 64, 0, stream>>>(out);
}
