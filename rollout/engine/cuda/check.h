#pragma once

// CUDA's result codes at the edge to torch: thrown as c10::Error, as torch's own operators do, and turned into a Status
// once, by CatchTorch.

#include <cuda_runtime_api.h>

#include "cmake/torch_pch.h"

namespace hone::rollout::cuda {

inline void CheckCuda(cudaError_t error) { TORCH_CHECK(error == cudaSuccess, "CUDA: ", cudaGetErrorString(error)); }

}  // namespace hone::rollout::cuda
