#pragma once

// The command line that puts a program into a sandbox: new user, process, network, mount, ipc, uts and cgroup namespaces,
// no capabilities, no environment, and a file system that holds only what is named here. Needs `bwrap` and either root or
// user namespaces. Limits (memory, time, files) are the spawner's: base/subprocess.h, and the program's own.

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace hone::verifier {

struct SandboxSpec {
  std::vector<std::string> read_only;        // files or folders, visible at the same path; must exist
  std::vector<std::string> read_only_try;    // the same, skipped where missing
  std::vector<std::pair<std::string, std::string>> writable;  // {path here, path inside}
  std::vector<std::string> devices;          // device nodes: "/dev/nvidia0"
  bool system_libraries = true;              // /lib, /lib64, /usr/lib, /usr/lib64 and the loader's cache, read-only
  bool sys = false;                          // /sys, read-only: the CUDA driver asks for it
  std::string tmp = "/tmp";                  // a private, empty, writable folder in memory; empty: none
  int64_t tmp_bytes = int64_t{2} << 30;      // that the files in it can take
  std::string folder = "/";                  // working folder
  std::vector<std::string> environment;      // "KEY=value"
  bool first_process = false;                // the command is process 1 of its namespace and reaps what is left to it; else
                                             // bwrap's own is, which the command's processes can look into
};

/// `command` inside the sandbox. Descriptors pass through. The sandbox and all in it end when the caller does.
std::vector<std::string> InSandbox(const SandboxSpec& spec, const std::vector<std::string>& command);

/// Whether a sandbox can be made on this machine: starts one, once per process. kFailedPrecondition says in one line what
/// is missing and what to install or set.
const absl::Status& SandboxAvailable();

/// What untrusted programs run in: "bubblewrap" or "none". `asked` may be either, or empty: $HONE_SANDBOX where that is set,
/// else "bubblewrap". "none" is only ever chosen by name. kInvalidArgument: another word. kFailedPrecondition: bubblewrap
/// does not work here; what SandboxAvailable says, and how to go on without.
absl::StatusOr<std::string> ChooseSandbox(absl::string_view asked);

/// Of a kernel or container that refuses namespaces, the setting or flag to change; empty where none is known. Reads /proc
/// and container marks below `root`, for tests; `bwrap_error` is the first line that bwrap left.
std::string NamespaceAdvice(absl::string_view bwrap_error, const std::string& root = "");

}  // namespace hone::verifier
