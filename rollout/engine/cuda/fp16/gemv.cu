#define HONE_FP16
#include "rollout/engine/cuda/gemv.cu"
