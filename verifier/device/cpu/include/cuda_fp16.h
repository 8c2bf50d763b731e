// IEEE 754 binary16 with the names and the rounding of CUDA's header.
#ifndef HONE_CUDA_FP16_H_
#define HONE_CUDA_FP16_H_
#include "hone/small_float_bits.h"
#define HONE_T __half
#define HONE_T2 __half2
#define HONE_FORMAT HoneBinary16
#define HONE_PASTE(a, b, c) a##b##c
#define HONE_NAME(a, b) HONE_PASTE(a, half, b)
#define HONE_NAME2(a, b) HONE_PASTE(a, half2, b)
#define HONE_ONE 0x3c00
#define HONE_INFINITE 0x7c00
#include "hone/small_float.h"
#undef HONE_PASTE
typedef __half half;
typedef __half2 half2;
typedef __half nv_half;
typedef __half2 nv_half2;
#define CUDART_INF_FP16 __ushort_as_half(0x7c00)
#define CUDART_NAN_FP16 __ushort_as_half(0x7fff)
#define CUDART_MIN_DENORM_FP16 __ushort_as_half(0x0001)
#define CUDART_MAX_NORMAL_FP16 __ushort_as_half(0x7bff)
#define CUDART_NEG_ZERO_FP16 __ushort_as_half(0x8000)
#define CUDART_ZERO_FP16 __ushort_as_half(0x0000)
#define CUDART_ONE_FP16 __ushort_as_half(0x3c00)
#endif  // HONE_CUDA_FP16_H_
