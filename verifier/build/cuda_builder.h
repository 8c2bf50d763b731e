#pragma once

// Builder of native candidates for NVIDIA GPUs (gpu_builder.h): nvcc.

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "verifier/build/builder.h"
#include "verifier/build/gpu_builder.h"
#include "verifier/cache/artefact_store.h"

namespace hone::verifier {

struct CudaBuilderOptions {
  std::string architecture = "sm_90";  // of the lanes' device
  std::string toolkit;                 // its folder; empty: $CUDA_HOME, $CUDA_PATH, /usr/local/cuda
  std::string sandbox;                 // as ChooseSandbox takes it
  bool rescue_flags = true;  // `-include cfloat --expt-relaxed-constexpr`, which spare whole families of answers
};

/// nvcc and its command line. kFailedPrecondition as below.
absl::StatusOr<GpuCompiler> FindNvcc(const CudaBuilderOptions& options);

/// `store` outlives the builder. kFailedPrecondition: no nvcc, or no sandbox where one is demanded.
absl::StatusOr<std::unique_ptr<Builder>> CreateCudaBuilder(const CudaBuilderOptions& options, ArtefactStore* store);

}  // namespace hone::verifier
