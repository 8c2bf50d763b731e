#pragma once

// g++ as the CPU backend uses it: the compiler proper, the assembler and the linker called directly, because the driver
// and its environment cost more than a small kernel's compilation.

#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace hone::verifier {

/// The commands of one compilation, up to their file names.
struct CpuToolchain {
  std::string version;                   // "g++ 12.2.0 (emulated CUDA 1f0c2a3b)": the number is that of `identity`
  std::string identity;                  // everything an artefact's bytes depend on: version, flags, processor, headers
  std::vector<std::string> quick;        // source to assembly, CompileOptions::Level; append "-o", out.s, in.cc
  std::vector<std::string> full;
  std::vector<std::string> checked;
  std::vector<std::string> assemble;     // append "-o", out.o, in.s
  std::vector<std::string> link;         // append "-o", out.so, in.o
  std::string headers;                   // the folder of the emulation's headers
  std::vector<std::string> folders;      // what the commands read, for the sandbox

  /// `compiler` is looked up on PATH. `headers` holds hone/prelude.h, `extra_headers` (may be empty) another dialect's names
  /// over it. kFailedPrecondition names what is missing.
  static absl::StatusOr<CpuToolchain> Find(const std::string& compiler, const std::string& headers,
                                           const std::string& extra_headers = "");
};

}  // namespace hone::verifier
