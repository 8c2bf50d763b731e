#include "bench/emulator/plain_loops.h"

#include <cmath>

namespace hone::bench {

void Saxpy(const float* x, const float* y, float* out, int n, float a) {
  for (int i = 0; i < n; ++i) out[i] = a * x[i] + y[i];
}

void RowSum(const float* x, float* y, int rows, int cols) {
  for (int r = 0; r < rows; ++r) {
    float sum = 0;
    for (int c = 0; c < cols; ++c) sum += x[r * cols + c];
    y[r] = sum;
  }
}

void Softmax(const float* x, float* y, int rows, int cols) {
  for (int r = 0; r < rows; ++r) {
    const float* in = x + r * cols;
    float* out = y + r * cols;
    float largest = in[0];
    for (int c = 1; c < cols; ++c) largest = in[c] > largest ? in[c] : largest;
    float sum = 0;
    for (int c = 0; c < cols; ++c) {
      out[c] = std::exp(in[c] - largest);
      sum += out[c];
    }
    for (int c = 0; c < cols; ++c) out[c] /= sum;
  }
}

void Matmul(const float* a, const float* b, float* c, int m, int n, int k) {
  for (int i = 0; i < m; ++i) {
    for (int j = 0; j < n; ++j) {
      float sum = 0;
      for (int l = 0; l < k; ++l) sum += a[i * k + l] * b[l * n + j];
      c[i * n + j] = sum;
    }
  }
}

void Transpose(const float* x, float* y, int rows, int cols) {
  for (int r = 0; r < rows; ++r) {
    for (int c = 0; c < cols; ++c) y[c * rows + r] = x[r * cols + c];
  }
}

}  // namespace hone::bench
