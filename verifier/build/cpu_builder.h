#pragma once

// Builder of native candidates for the CPU backend. Each compile runs in a sandbox with limits.

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "verifier/build/builder.h"
#include "verifier/cache/artefact_store.h"

namespace hone::verifier {

struct CpuBuilderOptions {
  std::string compiler = "g++";
  std::string headers;             // empty: those that ship with the program
  Backend backend = Backend::kCpu; // whose candidates it builds: kMusa with MUSA's headers over these
  std::string extra_headers;       // folder of those
  std::string name;                // what verdicts put before the compiler's
  std::string sandbox;             // as ChooseSandbox takes it
  bool rescue_flags = true;        // as nvcc with `-include cfloat --expt-relaxed-constexpr`, which spare whole families
                                   // of answers; false reproduces verdicts that were measured without
};

/// `store` outlives the builder. kFailedPrecondition: no compiler, no headers, or no sandbox where one is demanded.
absl::StatusOr<std::unique_ptr<Builder>> CreateCpuBuilder(const CpuBuilderOptions& options, ArtefactStore* store);

}  // namespace hone::verifier
