// The kernel's own source for the CPU.
#include "rollout/engine/cuda/token_step.cu"
