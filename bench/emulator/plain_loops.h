#pragma once

// What a C++ programmer writes for each of the benchmark's tasks without CUDA: the loops that emulated kernels are held
// against. One thread, strict floating-point order.

namespace hone::bench {

void Saxpy(const float* x, const float* y, float* out, int n, float a);
void RowSum(const float* x, float* y, int rows, int cols);
void Softmax(const float* x, float* y, int rows, int cols);
void Matmul(const float* a, const float* b, float* c, int m, int n, int k);
void Transpose(const float* x, float* y, int rows, int cols);

}  // namespace hone::bench
