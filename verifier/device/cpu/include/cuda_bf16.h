// bfloat16, float's upper half, with the names and the rounding of CUDA's header.
#ifndef HONE_CUDA_BF16_H_
#define HONE_CUDA_BF16_H_
#include "hone/small_float_bits.h"
#define HONE_T __nv_bfloat16
#define HONE_T2 __nv_bfloat162
#define HONE_FORMAT HoneBFloat16
#define HONE_PASTE(a, b, c) a##b##c
#define HONE_NAME(a, b) HONE_PASTE(a, bfloat16, b)
#define HONE_NAME2(a, b) HONE_PASTE(a, bfloat162, b)
#define HONE_ONE 0x3f80
#define HONE_INFINITE 0x7f80
#include "hone/small_float.h"
#undef HONE_PASTE
typedef __nv_bfloat16 nv_bfloat16;
typedef __nv_bfloat162 nv_bfloat162;
#define CUDART_INF_BF16 __ushort_as_bfloat16(0x7f80)
#define CUDART_NAN_BF16 __ushort_as_bfloat16(0x7fff)
#define CUDART_MIN_DENORM_BF16 __ushort_as_bfloat16(0x0001)
#define CUDART_MAX_NORMAL_BF16 __ushort_as_bfloat16(0x7f7f)
#define CUDART_NEG_ZERO_BF16 __ushort_as_bfloat16(0x8000)
#define CUDART_ZERO_BF16 __ushort_as_bfloat16(0x0000)
#define CUDART_ONE_BF16 __ushort_as_bfloat16(0x3f80)
#endif  // HONE_CUDA_BF16_H_
