#pragma once

// Builders of native candidates for MUSA: mcc, or a compatibility toolchain where there is no mcc (docs/musa.md).

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "verifier/build/builder.h"
#include "verifier/build/cpu_builder.h"
#include "verifier/build/cuda_builder.h"
#include "verifier/build/gpu_builder.h"
#include "verifier/cache/artefact_store.h"

namespace hone::verifier {

/// What compiles and runs MUSA candidates. Chosen by configuration and named in every verdict: never a fallback.
enum class MusaToolchain {
  kMcc,         // Moore Threads' own
  kCompatCuda,  // MUSA's names over CUDA: nvcc, an NVIDIA GPU
  kCompatCpu,   // MUSA's names over the CPU emulation
};

/// "mcc", "compat/cuda", "compat/cpu".
absl::string_view Name(MusaToolchain toolchain);
/// kInvalidArgument names those there are. Empty: $HONE_MUSA_TOOLCHAIN where that is set, else kMcc.
absl::StatusOr<MusaToolchain> ChooseMusaToolchain(absl::string_view asked);
/// The device table that its candidates run on (verifier/device/device.h).
std::string DeviceTableOf(MusaToolchain toolchain);

struct MccOptions {
  std::string architecture;  // "mp_22", or several as ParseMusaArchitectures reads them
  std::string toolkit;       // its folder; empty: $MUSA_HOME, $MUSA_PATH, /usr/local/musa
  std::string sandbox;       // as ChooseSandbox takes it
};

/// mcc of the toolkit, or the command in $PYTORCH_MCC ("ccache /opt/musa/bin/mcc"). `store` outlives the builder.
/// kFailedPrecondition: no mcc, or no sandbox where one is demanded. kInvalidArgument: an architecture that there is
/// not.
absl::StatusOr<std::unique_ptr<Builder>> CreateMccBuilder(const MccOptions& options, ArtefactStore* store);

/// nvcc and its command line over the compatibility headers. kFailedPrecondition as FindNvcc.
absl::StatusOr<GpuCompiler> FindNvccForMusa(const CudaBuilderOptions& options);

/// nvcc over the compatibility headers; verdicts say "musa-compat/cuda".
absl::StatusOr<std::unique_ptr<Builder>> CreateMusaOnCudaBuilder(const CudaBuilderOptions& options,
                                                                 ArtefactStore* store);

/// g++ over the compatibility headers and the emulation's; verdicts say "musa-compat/cpu".
absl::StatusOr<std::unique_ptr<Builder>> CreateMusaOnCpuBuilder(CpuBuilderOptions options, ArtefactStore* store);

/// A list as in torch_musa's $TORCH_MUSA_ARCH_LIST, "2.2;3.1" or "22 31" or "mp_22", as {"mp_22", "mp_31"}.
/// kInvalidArgument names a part that is none of 10, 21, 22, 31, 32.
absl::StatusOr<std::vector<std::string>> ParseMusaArchitectures(absl::string_view list);

}  // namespace hone::verifier
