// Every conversion and operation of a 16-bit floating type, one column of `out` each; tests/verifier/build/
// emulated_headers_test.cc knows what belongs there. With -DUSE_BFLOAT16 for the other type.
#ifdef USE_BFLOAT16
#include <cuda_bf16.h>
typedef __nv_bfloat16 T;
typedef __nv_bfloat162 T2;
#define FROM(rounding) __float2bfloat16##rounding
#define TO_FLOAT __bfloat162float
#define TO_INT(rounding) __bfloat162int##rounding
#else
#include <cuda_fp16.h>
typedef half T;
typedef half2 T2;
#define FROM(rounding) __float2half##rounding
#define TO_FLOAT __half2float
#define TO_INT(rounding) __half2int##rounding
#endif

__global__ void from_float(const float* __restrict__ f, T* __restrict__ out, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  out[i] = FROM(_rn)(f[i]);
  out[n + i] = FROM(_rz)(f[i]);
  out[2 * n + i] = FROM(_rd)(f[i]);
  out[3 * n + i] = FROM(_ru)(f[i]);
}

__global__ void arithmetic(const T* __restrict__ x, const T* __restrict__ y, const T* __restrict__ z, T* __restrict__ out,
                           int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  const T a = x[i], b = y[i], c = z[i];
  out[4 * n + i] = a + b;
  out[5 * n + i] = a - b;
  out[6 * n + i] = a * b;
  out[7 * n + i] = a / b;
  out[8 * n + i] = __hfma(a, b, c);
  out[9 * n + i] = __hmax(a, b);
  out[10 * n + i] = __hmin(a, b);
  out[11 * n + i] = -a;
  out[12 * n + i] = __habs(a);
  out[13 * n + i] = hsqrt(a);
  const int less = a < b, greater_or_equal = __hge(a, b), unordered = __hltu(a, b);
  out[14 * n + i] = T(less + 2 * greater_or_equal + 4 * unordered);
}

__global__ void pairs(const T2* __restrict__ x, const T2* __restrict__ y, T* out, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (2 * i >= n) return;
  T2* sums = reinterpret_cast<T2*>(out + 15 * n);
  sums[i] = __hadd2(x[i], y[i]);
  sums[n / 2 + i] = __lowhigh2highlow(__hmul2(x[i], y[i]));
}

__global__ void from_small(const T* __restrict__ x, float* __restrict__ back, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  back[i] = TO_FLOAT(x[i]);
  back[n + i] = TO_INT(_rz)(x[i]);
  back[2 * n + i] = TO_INT(_rn)(x[i]);
}

extern "C" void launch(const T* x, const T* y, const T* z, const float* f, T* out, float* back, int n, cudaStream_t stream) {
  const int blocks = (n + 255) / 256;
  from_float<<<blocks, 256, 0, stream>>>(f, out, n);
  arithmetic<<<blocks, 256, 0, stream>>>(x, y, z, out, n);
  pairs<<<blocks, 256, 0, stream>>>(reinterpret_cast<const T2*>(x), reinterpret_cast<const T2*>(y), out, n);
  from_small<<<blocks, 256, 0, stream>>>(x, back, n);
}
