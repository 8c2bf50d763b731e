// attack: mentions what is forbidden, in comments and strings
// expect: OK
// why: honest: a rule that speaks here is a false alarm

/* asm volatile("syscall"); #include "/etc/passwd" fork(); hone_call */
// cublasSgemm, __attribute__((constructor)), mprotect(), \
   asm on a spliced comment line
static const char* note = "asm __attribute__((constructor)) hone_rt_fail %:include \\";
__global__ void scale(const float* x, const float* weight, float* out, int n, int cols) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) out[i] = x[i] * weight[i % cols];
}
extern "C" void launch(const float* x, const float* weight, float* out, int rows, int cols, cudaStream_t stream) {
  if (note[0] == 0) return;
  scale<<<(rows * cols + 255) / 256, 256, 0, stream>>>(x, weight, out, rows * cols, cols);
}
