#pragma once

// Where an interpreter and its torch lie: what a sandbox has to show for it to run, and what an extension is compiled
// against.

#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace hone::verifier {

struct PythonEnvironment {
  std::string executable;             // absolute; of a virtual environment, its own
  std::string version;                // "3.11.7"
  std::vector<std::string> folders;   // all that it reads: libraries, and the files behind a link to the interpreter
  std::vector<std::string> includes;  // of Python.h; empty where the headers are not installed
  std::string extension_suffix;       // ".cpython-311-x86_64-linux-gnu.so"
  std::string torch_folder;           // ".../site-packages/torch"
  std::string torch_version;          // "2.11.0+cu130"
  std::string torch_cuda;             // "13.0"; empty for a build without CUDA
  bool has_triton = false;

  /// Asks `python` (a path or a name on PATH), without importing torch: 30 ms. kNotFound: no such interpreter, or no
  /// torch in it.
  static absl::StatusOr<PythonEnvironment> Probe(const std::string& python);
};

}  // namespace hone::verifier
