// bfloat16. Its functions are named alike in CUDA and MUSA, its type is not.
#ifndef HONE_MUSA_BF16_H_
#define HONE_MUSA_BF16_H_
#include <cuda_bf16.h>
typedef __nv_bfloat16 __mt_bfloat16;
typedef __nv_bfloat162 __mt_bfloat162;
typedef __nv_bfloat16 mt_bfloat16;
typedef __nv_bfloat162 mt_bfloat162;
#define MUSART_INF_BF16 CUDART_INF_BF16
#define MUSART_NAN_BF16 CUDART_NAN_BF16
#define MUSART_MIN_DENORM_BF16 CUDART_MIN_DENORM_BF16
#define MUSART_MAX_NORMAL_BF16 CUDART_MAX_NORMAL_BF16
#define MUSART_NEG_ZERO_BF16 CUDART_NEG_ZERO_BF16
#define MUSART_ZERO_BF16 CUDART_ZERO_BF16
#define MUSART_ONE_BF16 CUDART_ONE_BF16
#endif  // HONE_MUSA_BF16_H_
