#include "verifier/build/gpu_builder.h"

#include <algorithm>
#include <climits>
#include <csignal>
#include <cstdlib>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "base/file.h"
#include "base/hash.h"
#include "base/status_macros.h"
#include "base/steady_time.h"
#include "base/subprocess.h"
#include "verifier/build/cuda_source.h"
#include "verifier/build/elf_symbols.h"
#include "verifier/build/native_build.h"
#include "verifier/build/source_dialect.h"
#include "verifier/rules/object_rules.h"
#include "verifier/rules/source_rules.h"
#include "verifier/sandbox/bubblewrap.h"

namespace hone::verifier {
namespace {

constexpr int64_t kMessageBytes = 256 << 10;
constexpr int64_t kArtefactBytes = int64_t{64} << 20;
constexpr int64_t kAssemblyBytes = int64_t{256} << 20;  // holds the device's code as text
constexpr char kRevision[] = "2";                       // of the rules over what is built; part of every key
constexpr int64_t kFileBytes = int64_t{256} << 20;
constexpr int64_t kMemoryBytes = int64_t{12} << 30;  // address space of one of the compiler's tools
constexpr char kInside[] = "/build";                 // the job's folder as the compiler sees it

class GpuBuilder final : public Builder {
 public:
  GpuBuilder(GpuCompiler compiler, ArtefactStore* store) : compiler_(std::move(compiler)), store_(store) {}

  absl::StatusOr<BuildResult> Build(const BuildRequest& request) override {
    const std::string key =
        ContentKey({std::string(Name(compiler_.backend)), kRevision, request.candidate.source, request.signature.Declaration(),
                    compiler_.toolchain, compiler_.variant, RulePolicy(request.legality).Key()});
    HONE_ASSIGN_OR_RETURN(const Artefact artefact, store_->FindOrMake(key, [&] { return Make(request); }));
    return ResultOf(artefact);
  }

  std::string Toolchain(Backend backend) const override {
    return backend == compiler_.backend ? compiler_.toolchain : "";
  }

 private:
  absl::StatusOr<ArtefactContents> Make(const BuildRequest& request) {
    return Recorded(compiler_.toolchain, [&](BuildResult* result, ArtefactContents* contents) {
      return Compile(request, result, contents);
    });
  }

  absl::Status Compile(const BuildRequest& request, BuildResult* result, ArtefactContents* contents) {
    const std::string& source = request.candidate.source;
    if (std::string why = UnusableText(source); !why.empty()) {
      Reject(VerdictStatus::kParse, std::move(why), result);
      return absl::OkStatus();
    }
    const CudaSource parsed(source);
    const RulePolicy policy(request.legality);
    result->rules = dialect_.CheckRules(source, Assembly::kInDeviceCode, policy);
    if (FirstReject(result->rules) != nullptr) {
      Forbid(result);
      return absl::OkStatus();
    }
    if (!DefinesLaunch(parsed)) {
      RejectWithoutLaunch(request, dialect_, result);
      return absl::OkStatus();
    }
    HONE_ASSIGN_OR_RETURN(const TempFolder folder, TempFolder::Create("hone-gpu-build"));
    HONE_RETURN_IF_ERROR(WriteFileAtomically(absl::StrCat(folder.path(), "/", UnitFile()),
                                             dialect_.Unit(request.signature, source, "#include <cstdint>\n")));
    const SteadyTime deadline = SteadyTime::Now() + request.timeout;
    HONE_RETURN_IF_ERROR(RunTool(CompileCommand(), folder.path(), request, deadline, result));
    if (result->status != VerdictStatus::kOk) return absl::OkStatus();
    HONE_ASSIGN_OR_RETURN(const std::string object, ReadFile(folder.path() + "/unit.o", kArtefactBytes));
    HONE_ASSIGN_OR_RETURN(const ElfSummary summary, SummariseElf(object));
    if (std::find(summary.undefined.begin(), summary.undefined.end(), "launch") != summary.undefined.end()) {
      ReportErrors({{dialect_.candidate_file(), 0, "`launch` is not defined as expected"}}, request, dialect_, result);
      return absl::OkStatus();
    }
    if (compiler_.keeps_assembly) {
      HONE_ASSIGN_OR_RETURN(const std::string assembly, ReadFile(folder.path() + "/unit.s", kAssemblyBytes));
      for (const RuleHit& hit : CheckNvccAssembly(assembly, HeaderFolders(), policy)) result->rules.push_back(hit);
    }
    for (const RuleHit& hit : CheckGpuObject(summary, policy)) result->rules.push_back(hit);
    if (FirstReject(result->rules) != nullptr) {
      Forbid(result);
      return absl::OkStatus();
    }
    // The runtime is the runner's: what the object asks of it stays open until the artefact is loaded.
    HONE_RETURN_IF_ERROR(
        RunTool({"g++", "-shared", "-o", "artefact.so", "unit.o"}, folder.path(), request, deadline, result));
    if (result->status != VerdictStatus::kOk) return absl::OkStatus();
    HONE_ASSIGN_OR_RETURN(std::string artefact, ReadFile(folder.path() + "/artefact.so", kArtefactBytes));
    contents->files.emplace_back(kTimedFile, std::move(artefact));
    return absl::OkStatus();
  }

  static bool DefinesLaunch(const CudaSource& source) {
    for (const Definition& definition : source.definitions()) {
      if (definition.kind != Definition::Kind::kClass && definition.name == "launch") return true;
    }
    // Behind a macro, or in a way that the lexer does not see: the compiler knows.
    return absl::StrContains(source.text(), "launch");
  }

  /// Whose headers may hold assembly for the host.
  std::vector<std::string> HeaderFolders() const {
    std::vector<std::string> folders = compiler_.Folders();
    for (std::string& folder : folders) folder += "/";
    folders.push_back("/usr/");
    return folders;
  }

  std::string UnitFile() const { return absl::StrCat("unit", dialect_.extension()); }

  std::vector<std::string> CompileCommand() const {
    std::vector<std::string> command = compiler_.command;
    command.insert(command.end(), {"-o", "unit.o", UnitFile()});
    return command;
  }

  /// A step of the compilation in the job's folder. What it says against the candidate becomes the result's verdict.
  absl::Status RunTool(const std::vector<std::string>& command, const std::string& folder, const BuildRequest& request,
                       SteadyTime deadline, BuildResult* result) const {
    SpawnOptions spawn;
    const std::vector<std::string> environment = {absl::StrCat("PATH=", compiler_.folder, "/bin:/usr/bin:/bin"),
                                                  "LC_ALL=C", "HOME=/nonexistent",
                                                  absl::StrCat("TMPDIR=", compiler_.sandboxed ? kInside : folder)};
    spawn.argv = command;
    if (compiler_.sandboxed) {
      SandboxSpec box;
      box.read_only = {"/usr"};
      for (const std::string& folder : compiler_.Folders()) {
        if (!absl::StartsWith(folder, "/usr/")) box.read_only.push_back(folder);
      }
      box.read_only_try = {"/bin", "/etc/alternatives"};
      box.writable = {{folder, kInside}};
      box.folder = kInside;
      box.environment = environment;
      spawn.argv = InSandbox(box, command);
    }
    spawn.argv.insert(spawn.argv.begin(), {"nice", "-n", "19"});
    spawn.working_folder = folder;
    spawn.environment = environment;
    const char* path = std::getenv("PATH");  // where bwrap may be
    if (path != nullptr) absl::StrAppend(&spawn.environment.front(), ":", path);
    spawn.inherit_environment = false;
    spawn.address_space_bytes = kMemoryBytes;
    spawn.file_bytes = kFileBytes;
    spawn.cpu_seconds = absl::ToInt64Seconds(request.timeout) + 1;
    HONE_ASSIGN_OR_RETURN(const RunResult run,
                          Run(spawn, std::max(deadline - SteadyTime::Now(), absl::ZeroDuration()), kMessageBytes));
    if (run.timed_out || run.exit_code == 128 + SIGXCPU) {
      Reject(VerdictStatus::kCompileTimeout,
             absl::StrCat("the compiler did not end within ", absl::FormatDuration(request.timeout)), result);
      return absl::OkStatus();
    }
    if (run.exit_code == 0) return absl::OkStatus();
    if (absl::StartsWith(run.output, "bwrap:") || absl::StartsWith(run.output, "nice:")) {
      return absl::UnavailableError(absl::StrCat("the compiler cannot be started: ", run.output.substr(0, 300)));
    }
    const std::string output = absl::StrReplaceAll(run.output, {{"ptxas error   :", "error:"},
                                                                {"ptxas fatal   :", "error:"},
                                                                {"catastrophic error:", "error:"},
                                                                {UnitFile(), dialect_.candidate_file()}});
    ReportErrors(ParseCompilerErrors(output), request, dialect_, result);
    return absl::OkStatus();
  }

  const GpuCompiler compiler_;
  const SourceDialect dialect_{compiler_.backend};
  ArtefactStore* const store_;
};

}  // namespace

std::vector<std::string> GpuCompiler::Folders() const {
  std::vector<std::string> all = extra_folders;
  all.push_back(folder);
  return all;
}

absl::StatusOr<std::string> VersionOf(const std::vector<std::string>& compiler) {
  SpawnOptions spawn;
  spawn.argv = compiler;
  spawn.argv.push_back("--version");
  HONE_ASSIGN_OR_RETURN(const RunResult run, Run(spawn, absl::Seconds(30)));
  if (run.exit_code == 0) return run.output;
  return absl::FailedPreconditionError(absl::StrCat(absl::StrJoin(spawn.argv, " "), ": ", run.output));
}

std::string RealPath(const std::string& path) {
  char resolved[PATH_MAX];
  return realpath(path.c_str(), resolved) != nullptr ? resolved : path;
}

std::unique_ptr<Builder> MakeGpuBuilder(GpuCompiler compiler, ArtefactStore* store) {
  return std::make_unique<GpuBuilder>(std::move(compiler), store);
}

}  // namespace hone::verifier
