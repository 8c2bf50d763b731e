// binary16. Its type and functions are named alike in CUDA and MUSA.
#ifndef HONE_MUSA_FP16_H_
#define HONE_MUSA_FP16_H_
#include <cuda_fp16.h>
typedef __half mt_half;
typedef __half2 mt_half2;
#define MUSART_INF_FP16 CUDART_INF_FP16
#define MUSART_NAN_FP16 CUDART_NAN_FP16
#define MUSART_MIN_DENORM_FP16 CUDART_MIN_DENORM_FP16
#define MUSART_MAX_NORMAL_FP16 CUDART_MAX_NORMAL_FP16
#define MUSART_NEG_ZERO_FP16 CUDART_NEG_ZERO_FP16
#define MUSART_ZERO_FP16 CUDART_ZERO_FP16
#define MUSART_ONE_FP16 CUDART_ONE_FP16
#endif  // HONE_MUSA_FP16_H_
