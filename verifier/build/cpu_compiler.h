#pragma once

// Runs the CPU toolchain over untrusted source, in a sandbox, with limits.

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "verifier/build/cpu_toolchain.h"

namespace hone::verifier {

struct CompileOutput {
  bool ok = false;
  bool timed_out = false;
  std::string messages;   // of the tool that failed
  std::string artefact;   // the shared object's bytes
};

/// Thread-safe; each call blocks for one compilation.
class CpuCompiler {
 public:
  /// `sandbox`: "auto" (bubblewrap where it works), "bubblewrap", "none".
  static absl::StatusOr<std::unique_ptr<CpuCompiler>> Create(CpuToolchain toolchain, const std::string& sandbox);

  absl::StatusOr<CompileOutput> Compile(absl::string_view source, bool checked, absl::Duration timeout);

  const CpuToolchain& toolchain() const { return toolchain_; }
  /// "bubblewrap" or "none".
  const std::string& sandbox() const { return sandbox_; }

 private:
  CpuCompiler(CpuToolchain toolchain, std::string sandbox) : toolchain_(std::move(toolchain)), sandbox_(std::move(sandbox)) {}
  const CpuToolchain toolchain_;
  const std::string sandbox_;
};

}  // namespace hone::verifier
