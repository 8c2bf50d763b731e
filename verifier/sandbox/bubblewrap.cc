#include "verifier/sandbox/bubblewrap.h"

#include <cstdlib>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "base/file.h"
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
    return absl::FailedPreconditionError("bwrap is not installed: apt-get install bubblewrap");
  }
  if (!result.ok()) return result.status();
  if (result->exit_code == 0) return absl::OkStatus();
  const std::vector<std::string> lines = absl::StrSplit(result->output, '\n');
  const std::string advice = NamespaceAdvice(lines.front());
  return absl::FailedPreconditionError(
      absl::StrCat("bwrap cannot make a sandbox here (", lines.front(), "): ",
                   advice.empty() ? "it needs root or unprivileged user namespaces" : advice));
}

/// The number in a file of /proc; -1 where there is none.
int64_t Setting(const std::string& path) {
  const absl::StatusOr<std::string> text = ReadFile(path);
  return text.ok() && !text->empty() ? std::strtoll(text->c_str(), nullptr, 10) : -1;
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
  if (!spec.tmp.empty()) add({"--size", absl::StrCat(spec.tmp_bytes), "--tmpfs", spec.tmp});
  if (spec.sys) add({"--ro-bind", "/sys", "/sys"});
  for (const std::string& path : spec.read_only) add({"--ro-bind", path, path});
  for (const std::string& path : spec.read_only_try) add({"--ro-bind-try", path, path});
  for (const auto& [here, inside] : spec.writable) add({"--bind", here, inside});
  for (const std::string& device : spec.devices) add({"--dev-bind", device, device});
  for (const std::string& variable : spec.environment) {
    const std::pair<std::string, std::string> parts = absl::StrSplit(variable, absl::MaxSplits('=', 1));
    add({"--setenv", parts.first, parts.second});
  }
  if (spec.first_process) add({"--as-pid-1"});
  add({"--chdir", spec.folder});
  line.insert(line.end(), command.begin(), command.end());
  return line;
}

std::string NamespaceAdvice(absl::string_view bwrap_error, const std::string& root) {
  struct Known {
    const char* file;
    int64_t forbids;
    const char* command;
  };
  constexpr Known kSettings[] = {
      {"/proc/sys/kernel/unprivileged_userns_clone", 0, "sysctl -w kernel.unprivileged_userns_clone=1"},
      {"/proc/sys/user/max_user_namespaces", 0, "sysctl -w user.max_user_namespaces=15000"},
      {"/proc/sys/kernel/apparmor_restrict_unprivileged_userns", 1,
       "sysctl -w kernel.apparmor_restrict_unprivileged_userns=0"},
  };
  for (const Known& known : kSettings) {
    if (Setting(root + known.file) == known.forbids) {
      return absl::StrCat("the kernel forbids user namespaces: ", known.command, " as root");
    }
  }
  const bool container = FileExists(root + "/.dockerenv") || FileExists(root + "/run/.containerenv");
  if (!container) return "";
  if (absl::StrContains(bwrap_error, "mount proc")) {
    return "the container hides parts of /proc: start it with --security-opt systempaths=unconfined";
  }
  return "the container forbids namespaces: start it with --security-opt seccomp=unconfined --security-opt "
         "apparmor=unconfined --security-opt systempaths=unconfined";
}

const absl::Status& SandboxAvailable() {
  static const absl::Status* const status = new absl::Status(TrySandbox());
  return *status;
}

absl::StatusOr<std::string> ChooseSandbox(absl::string_view asked) {
  const char* set = std::getenv("HONE_SANDBOX");
  std::string chosen(asked);
  if (chosen.empty() && set != nullptr) chosen = set;
  if (chosen.empty()) chosen = "bubblewrap";
  if (chosen == "none") return chosen;
  if (chosen != "bubblewrap") {
    return absl::InvalidArgumentError(
        absl::StrCat(asked.empty() ? "HONE_SANDBOX" : "sandbox", ": '", chosen, "' is neither bubblewrap nor none"));
  }
  if (!SandboxAvailable().ok()) {
    return absl::FailedPreconditionError(absl::StrCat(
        SandboxAvailable().message(), "; HONE_SANDBOX=none goes on without: candidates then run with your rights"));
  }
  return chosen;
}

}  // namespace hone::verifier
