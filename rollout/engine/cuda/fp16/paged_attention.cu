#define HONE_FP16
#include "rollout/engine/cuda/paged_attention.cu"
