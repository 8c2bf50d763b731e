#pragma once

// Builder of Python candidates: `ModelNew` modules with load_inline, with Triton kernels, or plain. Their text is read
// in a process of its own (torch_scan.py), never run; each extension that it asks for is compiled here, by our own
// command lines, in a sandbox and a folder of its own, without lock files; what the runner gets is one bundle of the
// text and the built extensions. A build inside `try`, lazily in `forward`, or never asked for is found all the same:
// what does not build is COMPILE, whatever the candidate would have done about it.
//
// A bundle: "HONEPY1\n", a little-endian uint64, that many bytes of JSON {"source", "triton", "extensions": [{"key",
// "name", "offset", "bytes"}]}, and the extensions' bytes.
//
// Compile times: the C++ part comes first, because what does not build mostly fails there. Three sizes of headers are tried,
// the next one where a failure may be the smaller one's: in the opaque ones tensors are handles (opaque/torch/extension.h;
// not under MUSA), the light ones have torch's tensors and the operators that the source names (light/torch/extension.h), the
// full ones are torch's own. A small CUDA extension takes 1.6 processor seconds with the first (nvcc 13.0, g++ 12), 18 with the
// second.

#include <memory>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "verifier/build/builder.h"
#include "verifier/build/gpu_builder.h"
#include "verifier/cache/artefact_store.h"
#include "verifier/runner/python_environment.h"

namespace hone::verifier {

struct TorchBuilderOptions {
  PythonEnvironment python;            // that will run the candidates
  std::string architecture = "sm_90";  // of CUDA code
  std::string toolkit;                 // CUDA's folder; empty: $CUDA_HOME, $CUDA_PATH, /usr/local/cuda
  std::string sandbox;                 // as ChooseSandbox reads it
  std::string musa;                    // what verdicts on MUSA candidates say: "musa-compat/cuda"; empty: none are built
  std::optional<GpuCompiler> musa_compiler;  // of their device code; none: they may have C++ only
  int niceness = 19;                   // of compilers, so that they do not disturb what is timed beside them
  // To build for another machine's interpreter of the same torch: its version and the folders of its Python.h.
  std::string target_version;
  std::vector<std::string> target_includes;
};

/// `store` outlives the builder. kFailedPrecondition: no g++, no Python headers, or no sandbox where one is demanded.
/// Without nvcc it builds for the CPU alone.
absl::StatusOr<std::unique_ptr<Builder>> CreateTorchBuilder(const TorchBuilderOptions& options, ArtefactStore* store);

}  // namespace hone::verifier
