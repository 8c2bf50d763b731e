// Forced in front of every candidate that the CPU backend compiles: the CUDA dialect in plain C++ for g++, without a
// single standard header, because each costs more than the candidate itself. Names and semantics are those of the CUDA
// C++ Programming Guide and the CUDA runtime API; what differs is stated where it is defined.
#ifndef HONE_PRELUDE_H_
#define HONE_PRELUDE_H_

#define __CUDACC__ 1
#define __NVCC__ 1
#define __CUDA_ARCH__ 900
#define CUDART_VERSION 13000
#define HONE_EMULATED 1

#define HONE_INLINE static inline __attribute__((always_inline))

#include "hone/base_types.h"
#include "hone/execution.h"
#include "hone/vector_types.h"
#include "hone/runtime_api.h"
#include "hone/kernel.h"
#include "hone/warp.h"
#include "hone/math.h"
#include "hone/atomics.h"
#include "hone/api.h"

#endif  // HONE_PRELUDE_H_
