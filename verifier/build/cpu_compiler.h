#pragma once

// Runs the CPU toolchain over untrusted source: compile servers (compile_server_main.cc), each in a sandbox of its own,
// started when there is work for one more and kept. A compilation costs what its source costs; a server that misbehaves,
// or whose job had to be killed, is replaced.

#include <memory>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "verifier/build/cpu_toolchain.h"

namespace hone::verifier {

struct CompileOptions {
  /// kQuick: vectorised, little else: as fast as -O3 for the loops of most kernels, at half its price. kFull: -O3, for
  /// kernels with local arrays, which must be unrolled into registers. kChecked: with array bounds checks.
  enum class Level { kQuick, kFull, kChecked };
  Level level = Level::kQuick;
  bool rescue_flags = true;   // CpuBuilderOptions::rescue_flags
};

struct CompileOutput {
  bool ok = false;
  bool timed_out = false;
  std::string messages;   // of the tools
  std::string artefact;   // the shared object's bytes
  std::string assembly;   // what it was made of, as the compiler wrote it
};

/// Thread-safe; each call blocks for one compilation.
class CpuCompiler {
 public:
  /// `sandbox`: as ChooseSandbox takes it, whose errors are returned.
  static absl::StatusOr<std::unique_ptr<CpuCompiler>> Create(CpuToolchain toolchain, const std::string& sandbox);
  ~CpuCompiler();

  /// kUnavailable: the compile servers do not stay up.
  absl::StatusOr<CompileOutput> Compile(absl::string_view source, const CompileOptions& options, absl::Duration timeout);

  const CpuToolchain& toolchain() const { return toolchain_; }
  /// "bubblewrap" or "none".
  const std::string& sandbox() const { return sandbox_; }

 private:
  class Server;
  CpuCompiler(CpuToolchain toolchain, std::string sandbox);
  absl::StatusOr<std::unique_ptr<Server>> Take();

  const CpuToolchain toolchain_;
  const std::string sandbox_;
  absl::Mutex mutex_;
  std::vector<std::unique_ptr<Server>> idle_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace hone::verifier
