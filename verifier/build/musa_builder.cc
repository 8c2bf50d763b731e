#include "verifier/build/musa_builder.h"

#include <algorithm>
#include <cstdlib>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "base/file.h"
#include "base/names.h"
#include "base/status_macros.h"
#include "verifier/device/musa/dialect.h"
#include "verifier/sandbox/bubblewrap.h"

namespace hone::verifier {
namespace {

constexpr NameTable<MusaToolchain, 3> kToolchains = {{{MusaToolchain::kMcc, "mcc"},
                                                      {MusaToolchain::kCompatCuda, "compat/cuda"},
                                                      {MusaToolchain::kCompatCpu, "compat/cpu"}}};
constexpr absl::string_view kArchitectures[] = {"10", "21", "22", "31", "32"};

std::string Environment(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

std::string CompatHeaders() { return ResourcePath("musa/include"); }

absl::Status CheckCompatHeaders() {
  const std::string header = CompatHeaders() + "/musa_runtime.h";
  return FileExists(header) ? absl::OkStatus()
                            : absl::FailedPreconditionError(absl::StrCat("no ", header, ": reinstall hone"));
}

/// The words that start mcc, and its toolkit.
absl::StatusOr<GpuCompiler> FindMcc(const MccOptions& options) {
  GpuCompiler compiler;
  compiler.backend = Backend::kMusa;
  const std::string root = options.toolkit.empty() ? ToolkitFolder(kMusaDialect) : options.toolkit;
  compiler.folder = root.empty() ? root : RealPath(root);
  if (const std::string named = Environment("PYTORCH_MCC"); !named.empty()) {
    compiler.command = absl::StrSplit(named, ' ', absl::SkipEmpty());
    for (const std::string& word : compiler.command) {
      if (absl::StartsWith(word, "/")) compiler.extra_folders.push_back(word);
    }
  } else {
    compiler.command = {compiler.folder + "/bin/mcc"};
  }
  const bool found = !absl::StartsWith(compiler.command.back(), "/") || FileExists(compiler.command.back());
  if (root.empty() || !found) {
    return absl::FailedPreconditionError(
        "the MUSA backend compiles with mcc, which is not found: set MUSA_HOME to a MUSA toolkit, or choose a "
        "compatibility "
        "toolchain by name (musa_toolchain: compat/cuda or compat/cpu)");
  }
  return compiler;
}

/// "4.3.0" of "mcc version 4.3.0 (...)".
std::string NumberIn(absl::string_view output) {
  for (absl::string_view word : absl::StrSplit(output, absl::ByAnyChar(" \n\t"), absl::SkipEmpty())) {
    if (absl::ascii_isdigit(static_cast<unsigned char>(word[0])) && absl::StrContains(word, "."))
      return std::string(word);
  }
  return "of unknown version";
}

}  // namespace

absl::string_view Name(MusaToolchain toolchain) { return NameIn(kToolchains, toolchain); }

absl::StatusOr<MusaToolchain> ChooseMusaToolchain(absl::string_view asked) {
  const std::string name = asked.empty() ? Environment("HONE_MUSA_TOOLCHAIN") : std::string(asked);
  if (name.empty()) return MusaToolchain::kMcc;
  const std::optional<MusaToolchain> known = ParseIn(kToolchains, name);
  if (known) return *known;
  return absl::InvalidArgumentError(absl::StrCat(asked.empty() ? "HONE_MUSA_TOOLCHAIN" : "musa_toolchain", ": '", name,
                                                 "'; there are mcc, compat/cuda, compat/cpu"));
}

std::string DeviceTableOf(MusaToolchain toolchain) {
  return toolchain == MusaToolchain::kMcc ? "musa" : absl::StrCat("musa-", Name(toolchain));
}

absl::StatusOr<std::vector<std::string>> ParseMusaArchitectures(absl::string_view list) {
  std::vector<std::string> all;
  for (absl::string_view part : absl::StrSplit(list, absl::ByAnyChar("; ,"), absl::SkipEmpty())) {
    const std::string number = absl::StrReplaceAll(absl::StripPrefix(part, "mp_"), {{".", ""}});
    if (std::find(std::begin(kArchitectures), std::end(kArchitectures), number) == std::end(kArchitectures)) {
      return absl::InvalidArgumentError(
          absl::StrCat("no MUSA architecture '", part, "'; there are mp_", absl::StrJoin(kArchitectures, ", mp_")));
    }
    all.push_back("mp_" + number);
  }
  return all;
}

absl::StatusOr<std::unique_ptr<Builder>> CreateMccBuilder(const MccOptions& options, ArtefactStore* store) {
  HONE_ASSIGN_OR_RETURN(GpuCompiler compiler, FindMcc(options));
  HONE_ASSIGN_OR_RETURN(const std::string sandbox, ChooseSandbox(options.sandbox));
  compiler.sandboxed = sandbox == "bubblewrap";
  HONE_ASSIGN_OR_RETURN(const std::vector<std::string> architectures, ParseMusaArchitectures(options.architecture));
  if (architectures.empty()) {
    return absl::FailedPreconditionError(
        "no MUSA device to build for: set TORCH_MUSA_ARCH_LIST or musa_architecture (mp_22 for an S4000, mp_31 for an "
        "S5000)");
  }
  HONE_ASSIGN_OR_RETURN(const std::string version, VersionOf(compiler.command));
  compiler.toolchain = absl::StrCat("mcc ", NumberIn(version), " ", absl::StrJoin(architectures, ","));
  compiler.command.insert(compiler.command.end(),
                          {"-c", "-x", "musa", "-std=c++17", "-O3", "-w", "-fPIC", "-fvisibility=hidden",
                           "-fno-threadsafe-statics", "-U_FORTIFY_SOURCE", "-include", "cfloat"});
  for (const std::string& architecture : architectures) compiler.command.push_back("--offload-arch=" + architecture);
  compiler.command.push_back(absl::StrCat("-I", compiler.folder, "/include"));
  return MakeGpuBuilder(std::move(compiler), store);
}

absl::StatusOr<GpuCompiler> FindNvccForMusa(const CudaBuilderOptions& options) {
  HONE_RETURN_IF_ERROR(CheckCompatHeaders());
  HONE_ASSIGN_OR_RETURN(GpuCompiler compiler, FindNvcc(options));
  compiler.backend = Backend::kMusa;
  compiler.toolchain = absl::StrCat("musa-compat/cuda ", compiler.toolchain);
  compiler.extra_folders = {CompatHeaders()};
  compiler.command.insert(compiler.command.end(), {"-x", "cu", "-I", CompatHeaders()});
  return compiler;
}

absl::StatusOr<std::unique_ptr<Builder>> CreateMusaOnCudaBuilder(const CudaBuilderOptions& options,
                                                                 ArtefactStore* store) {
  HONE_ASSIGN_OR_RETURN(GpuCompiler compiler, FindNvccForMusa(options));
  return MakeGpuBuilder(std::move(compiler), store);
}

absl::StatusOr<std::unique_ptr<Builder>> CreateMusaOnCpuBuilder(CpuBuilderOptions options, ArtefactStore* store) {
  HONE_RETURN_IF_ERROR(CheckCompatHeaders());
  options.backend = Backend::kMusa;
  options.extra_headers = CompatHeaders();
  options.name = "musa-compat/cpu";
  return CreateCpuBuilder(options, store);
}

}  // namespace hone::verifier
