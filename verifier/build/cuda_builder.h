#pragma once

// Builder of native candidates for NVIDIA GPUs: nvcc in a sandbox with limits, one run a candidate, low in priority so that
// it does not disturb what is timed beside it.

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "verifier/build/builder.h"
#include "verifier/cache/artefact_store.h"

namespace hone::verifier {

struct CudaBuilderOptions {
  std::string architecture = "sm_90";  // of the lanes' device
  std::string toolkit;                 // its folder; empty: $CUDA_HOME, $CUDA_PATH, /usr/local/cuda
  std::string sandbox;                 // as ChooseSandbox takes it
  bool rescue_flags = true;            // `-include cfloat --expt-relaxed-constexpr`, which spare whole families of answers
};

/// `store` outlives the builder. kFailedPrecondition: no nvcc, or no sandbox where one is demanded.
absl::StatusOr<std::unique_ptr<Builder>> CreateCudaBuilder(const CudaBuilderOptions& options, ArtefactStore* store);

}  // namespace hone::verifier
