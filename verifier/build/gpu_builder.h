#pragma once

// Builder of native candidates for GPUs: the vendor's compiler in a sandbox with limits, one run a candidate, low in
// priority so that it does not disturb what is timed beside it. What differs between vendors is a GpuCompiler.

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "verifier/build/builder.h"
#include "verifier/cache/artefact_store.h"

namespace hone::verifier {

struct GpuCompiler {
  Backend backend = Backend::kCuda;
  std::string toolchain;                   // what verdicts say: "nvcc 13.0.88 sm_90"
  std::string variant;                     // of the command: flags that the toolchain's name does not tell
  std::string folder;                      // the toolkit
  std::vector<std::string> extra_folders;  // that it reads besides, and /usr
  std::vector<std::string> command;        // source to object; "-o", object and source are put behind it
  bool sandboxed = true;
  bool keeps_assembly = false;             // g++'s of the host's half of nvcc's work lies beside the object, as unit.s

  std::vector<std::string> Folders() const;
};

/// `store` outlives the builder.
std::unique_ptr<Builder> MakeGpuBuilder(GpuCompiler compiler, ArtefactStore* store);

/// What a compiler says to --version. kFailedPrecondition: it does not start.
absl::StatusOr<std::string> VersionOf(const std::vector<std::string>& compiler);

/// Without links; the path itself where there is nothing.
std::string RealPath(const std::string& path);

}  // namespace hone::verifier
