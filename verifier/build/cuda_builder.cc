#include "verifier/build/cuda_builder.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "base/file.h"
#include "base/status_macros.h"
#include "verifier/build/gpu_builder.h"
#include "verifier/device/cuda/driver.h"
#include "verifier/sandbox/bubblewrap.h"

namespace hone::verifier {
namespace {

/// "V13.0.88" of the last line but one: "Cuda compilation tools, release 13.0, V13.0.88".
std::string NumberIn(absl::string_view output) {
  for (absl::string_view line : absl::StrSplit(output, '\n')) {
    const size_t at = line.find(", V");
    if (at != absl::string_view::npos) return std::string(line.substr(at + 3));
  }
  return "";
}

}  // namespace

absl::StatusOr<GpuCompiler> FindNvcc(const CudaBuilderOptions& options) {
  GpuCompiler compiler;
  const std::string root = options.toolkit.empty() ? ToolkitFolder(kCudaDialect) : options.toolkit;
  compiler.folder = root.empty() ? root : RealPath(root);
  const std::string nvcc = compiler.folder + "/bin/nvcc";
  if (root.empty() || !FileExists(nvcc)) {
    return absl::FailedPreconditionError(
        "the CUDA backend compiles with nvcc, which is not found: set CUDA_HOME to a CUDA toolkit");
  }
  HONE_ASSIGN_OR_RETURN(const std::string sandbox, ChooseSandbox(options.sandbox));
  compiler.sandboxed = sandbox == "bubblewrap";
  HONE_ASSIGN_OR_RETURN(const std::string output, VersionOf({nvcc}));
  const std::string number = NumberIn(output);
  if (number.empty()) return absl::FailedPreconditionError(absl::StrCat(nvcc, " --version: ", output));
  compiler.toolchain = absl::StrCat("nvcc ", number, " ", options.architecture);
  compiler.command = {
      nvcc,
      "-c",
      "-std=c++17",
      "-O3",
      "-w",
      "-lineinfo",  // for the memory checker; the code is the same
      absl::StrCat("-gencode=arch=compute_", options.architecture.substr(3), ",code=", options.architecture),
      "-Xcompiler=-fPIC,-fvisibility=hidden,-fno-threadsafe-statics,-U_FORTIFY_SOURCE,-save-temps=obj"};
  compiler.keeps_assembly = true;
  if (options.rescue_flags) {
    compiler.command.insert(compiler.command.end(), {"-include", "cfloat", "--expt-relaxed-constexpr"});
  } else {
    compiler.variant = "bare";
  }
  return compiler;
}

absl::StatusOr<std::unique_ptr<Builder>> CreateCudaBuilder(const CudaBuilderOptions& options, ArtefactStore* store) {
  HONE_ASSIGN_OR_RETURN(GpuCompiler compiler, FindNvcc(options));
  return MakeGpuBuilder(std::move(compiler), store);
}

}  // namespace hone::verifier
