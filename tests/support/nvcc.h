#pragma once

// Compiling with NVIDIA's compiler where it is installed: no device is needed.

#include <string>
#include <vector>

#include "base/file.h"
#include "base/subprocess.h"

namespace hone {

/// Whether nvcc is on PATH: the caller skips where it is not.
inline bool HasNvcc() {
  SpawnOptions spawn;
  spawn.argv = {"nvcc", "--version"};
  const absl::StatusOr<RunResult> result = Run(spawn, absl::Seconds(30));
  return result.ok() && result->exit_code == 0;
}

/// What nvcc says about a source, down to PTX; empty: it compiles. Warnings are kept quiet.
inline std::string NvccErrors(const std::string& file, const std::vector<std::string>& options = {}) {
  SpawnOptions spawn;
  spawn.argv = {"nvcc", "-ptx", "-arch=sm_90", "-std=c++17", "-w", file, "-o", "/dev/null"};
  spawn.argv.insert(spawn.argv.end(), options.begin(), options.end());
  const absl::StatusOr<RunResult> result = Run(spawn, absl::Minutes(5));
  if (!result.ok()) return std::string(result.status().message());
  return result->exit_code == 0 ? "" : "nvcc failed: " + result->output;
}

}  // namespace hone
