#include "verifier/build/cpu_compiler.h"

#include <vector>

#include "absl/strings/str_cat.h"
#include "base/file.h"
#include "base/status_macros.h"
#include "base/subprocess.h"
#include "verifier/sandbox/bubblewrap.h"

namespace hone::verifier {
namespace {

constexpr int64_t kMemoryBytes = int64_t{2} << 30;
constexpr int64_t kFileBytes = int64_t{64} << 20;
constexpr int64_t kMessageBytes = 256 << 10;

std::string Quoted(const std::vector<std::string>& command) {
  std::string line;
  for (const std::string& word : command) {
    std::string escaped;
    for (const char c : word) escaped += c == '\'' ? "'\\''" : std::string(1, c);
    absl::StrAppend(&line, line.empty() ? "'" : " '", escaped, "'");
  }
  return line;
}

}  // namespace

absl::StatusOr<std::unique_ptr<CpuCompiler>> CpuCompiler::Create(CpuToolchain toolchain, const std::string& sandbox) {
  std::string chosen = sandbox;
  if (sandbox == "auto") chosen = SandboxAvailable().ok() ? "bubblewrap" : "none";
  if (chosen == "bubblewrap") HONE_RETURN_IF_ERROR(SandboxAvailable());
  if (chosen != "bubblewrap" && chosen != "none") {
    return absl::InvalidArgumentError(absl::StrCat("sandbox '", sandbox, "' is none of auto, bubblewrap, none"));
  }
  return std::unique_ptr<CpuCompiler>(new CpuCompiler(std::move(toolchain), std::move(chosen)));
}

absl::StatusOr<CompileOutput> CpuCompiler::Compile(absl::string_view source, bool checked, absl::Duration timeout) {
  HONE_ASSIGN_OR_RETURN(const TempFolder folder, TempFolder::Create("hone-compile"));
  HONE_RETURN_IF_ERROR(WriteFileAtomically(folder.path() + "/candidate.cc", source));
  const std::string inside = sandbox_ == "bubblewrap" ? "/hone-compile" : folder.path();
  const auto file = [&inside](const char* name) { return absl::StrCat(inside, "/", name); };
  auto with = [](std::vector<std::string> command, std::vector<std::string> more) {
    command.insert(command.end(), more.begin(), more.end());
    return Quoted(command);
  };
  const std::string script = absl::StrCat(
      with(checked ? toolchain_.check : toolchain_.compile, {"-o", file("out.s"), file("candidate.cc")}), " && ",
      with(toolchain_.assemble, {"-o", file("out.o"), file("out.s")}), " && ",
      with(toolchain_.link, {"-o", file("out.so"), file("out.o")}));
  SpawnOptions spawn;
  spawn.argv = {"/bin/sh", "-c", script};
  if (sandbox_ == "bubblewrap") {
    SandboxSpec spec;
    spec.read_only = toolchain_.folders;
    spec.read_only_try = {"/bin"};
    spec.writable = {{folder.path(), "/hone-compile"}};
    spec.folder = "/hone-compile";
    spec.environment = {"LC_ALL=C", "PATH=/usr/bin:/bin"};
    spawn.argv = InSandbox(spec, spawn.argv);
  }
  spawn.environment = {"LC_ALL=C", "PATH=/usr/local/bin:/usr/bin:/bin"};
  spawn.inherit_environment = false;
  spawn.address_space_bytes = kMemoryBytes;
  spawn.file_bytes = kFileBytes;
  HONE_ASSIGN_OR_RETURN(RunResult result, Run(spawn, timeout, kMessageBytes));
  CompileOutput output;
  output.timed_out = result.timed_out;
  output.messages = std::move(result.output);
  if (result.timed_out || result.exit_code != 0) return output;
  HONE_ASSIGN_OR_RETURN(output.artefact, ReadFile(folder.path() + "/out.so"));
  output.ok = true;
  return output;
}

}  // namespace hone::verifier
