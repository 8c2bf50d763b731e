// attack: a flood of diagnostics
// expect: COMPILE COMPILE_TIMEOUT
// why: errors are counted and cut

#define E0 E1; E1;
#define E1 E2; E2;
#define E2 E3; E3;
#define E3 E4; E4;
#define E4 E5; E5;
#define E5 E6; E6;
#define E6 E7; E7;
#define E7 E8; E8;
#define E8 E9; E9;
#define E9 E10; E10;
#define E10 E11; E11;
#define E11 E12; E12;
#define E12 E13; E13;
#define E13 E14; E14;
#define E14 undeclared++
__global__ void scale(const float* x, const float* weight, float* out, int n, int cols) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) out[i] = x[i] * weight[i % cols];
}
extern "C" void launch(const float* x, const float* weight, float* out, int rows, int cols, cudaStream_t stream) {
  E0;
  scale<<<(rows * cols + 255) / 256, 256, 0, stream>>>(x, weight, out, rows * cols, cols);
}
