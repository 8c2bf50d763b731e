#include "verifier/sandbox/bubblewrap.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "base/subprocess.h"

namespace hone::verifier {
namespace {

absl::Status TrySandbox() {
  SandboxSpec spec;
  spec.read_only = {"/usr"};
  spec.read_only_try = {"/bin"};
  SpawnOptions spawn;
  spawn.argv = InSandbox(spec, {"/usr/bin/true"});
  const auto result = Run(spawn, absl::Seconds(10), 4096);
  if (absl::IsNotFound(result.status())) {
    return absl::FailedPreconditionError("bwrap is not installed (package bubblewrap)");
  }
  if (!result.ok()) return result.status();
  if (result->exit_code == 0) return absl::OkStatus();
  const std::vector<std::string> lines = absl::StrSplit(result->output, '\n');
  return absl::FailedPreconditionError(
      absl::StrCat("bwrap cannot make a sandbox here: ", lines.front(), " (it needs root or unprivileged user namespaces)"));
}

}  // namespace

std::vector<std::string> InSandbox(const SandboxSpec& spec, const std::vector<std::string>& command) {
  std::vector<std::string> line = {"bwrap",     "--unshare-all", "--die-with-parent", "--new-session", "--cap-drop",
                                   "ALL",       "--clearenv",    "--proc",            "/proc",         "--dev",
                                   "/dev"};
  const auto add = [&line](std::initializer_list<std::string> words) { line.insert(line.end(), words); };
  if (spec.system_libraries) {
    for (const char* path : {"/lib", "/lib64", "/usr/lib", "/usr/lib64", "/etc/ld.so.cache"}) {
      add({"--ro-bind-try", path, path});
    }
  }
  if (!spec.tmp.empty()) add({"--tmpfs", spec.tmp});
  if (spec.sys) add({"--ro-bind", "/sys", "/sys"});
  for (const std::string& path : spec.read_only) add({"--ro-bind", path, path});
  for (const std::string& path : spec.read_only_try) add({"--ro-bind-try", path, path});
  for (const auto& [here, inside] : spec.writable) add({"--bind", here, inside});
  for (const std::string& device : spec.devices) add({"--dev-bind", device, device});
  for (const std::string& variable : spec.environment) {
    const std::pair<std::string, std::string> parts = absl::StrSplit(variable, absl::MaxSplits('=', 1));
    add({"--setenv", parts.first, parts.second});
  }
  add({"--chdir", spec.folder});
  line.insert(line.end(), command.begin(), command.end());
  return line;
}

const absl::Status& SandboxAvailable() {
  static const absl::Status* const status = new absl::Status(TrySandbox());
  return *status;
}

}  // namespace hone::verifier
