#include "verifier/build/cuda_builder.h"

#include <algorithm>
#include <climits>
#include <csignal>
#include <cstdlib>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "base/file.h"
#include "base/hash.h"
#include "base/status_macros.h"
#include "base/steady_time.h"
#include "base/subprocess.h"
#include "verifier/build/cuda_source.h"
#include "verifier/build/elf_symbols.h"
#include "verifier/build/glue.h"
#include "verifier/build/native_build.h"
#include "verifier/device/cuda/driver.h"
#include "verifier/rules/object_rules.h"
#include "verifier/rules/source_rules.h"
#include "verifier/sandbox/bubblewrap.h"

namespace hone::verifier {
namespace {

constexpr int64_t kMessageBytes = 256 << 10;
constexpr int64_t kArtefactBytes = int64_t{64} << 20;
constexpr int64_t kFileBytes = int64_t{256} << 20;
constexpr int64_t kMemoryBytes = int64_t{12} << 30;  // address space of one of nvcc's tools
constexpr char kInside[] = "/build";                 // the job's folder as the compiler sees it

std::string RealPath(const std::string& path) {
  char resolved[PATH_MAX];
  return realpath(path.c_str(), resolved) != nullptr ? resolved : path;
}

/// "13.0" of the last line but one: "Cuda compilation tools, release 13.0, V13.0.88".
std::string VersionIn(absl::string_view output) {
  for (absl::string_view line : absl::StrSplit(output, '\n')) {
    const size_t at = line.find(", V");
    if (at != absl::string_view::npos) return std::string(line.substr(at + 3));
  }
  return "";
}

class CudaBuilder final : public Builder {
 public:
  static absl::StatusOr<std::unique_ptr<Builder>> Create(const CudaBuilderOptions& options, ArtefactStore* store) {
    std::unique_ptr<CudaBuilder> builder(new CudaBuilder(options, store));
    const std::string root = options.toolkit.empty() ? ToolkitFolder(kCudaDialect) : options.toolkit;
    builder->toolkit_ = root.empty() ? root : RealPath(root);
    builder->nvcc_ = builder->toolkit_ + "/bin/nvcc";
    if (root.empty() || !FileExists(builder->nvcc_)) {
      return absl::FailedPreconditionError(
          "the CUDA backend compiles with nvcc, which is not found: set CUDA_HOME to a CUDA toolkit");
    }
    HONE_ASSIGN_OR_RETURN(const std::string sandbox, ChooseSandbox(options.sandbox));
    builder->sandboxed_ = sandbox == "bubblewrap";
    SpawnOptions spawn;
    spawn.argv = {builder->nvcc_, "--version"};
    HONE_ASSIGN_OR_RETURN(const RunResult version, Run(spawn, absl::Seconds(30)));
    const std::string number = VersionIn(version.output);
    if (version.exit_code != 0 || number.empty()) {
      return absl::FailedPreconditionError(absl::StrCat(builder->nvcc_, " --version: ", version.output));
    }
    builder->version_ = absl::StrCat("nvcc ", number, " ", options.architecture);
    return std::unique_ptr<Builder>(std::move(builder));
  }

  absl::StatusOr<BuildResult> Build(const BuildRequest& request) override {
    const std::string key = ContentKey({"cuda", request.candidate.source, request.signature.Declaration(), version_,
                                        options_.rescue_flags ? "" : "bare", RulePolicy(request.legality).Key()});
    HONE_ASSIGN_OR_RETURN(const Artefact artefact, store_->FindOrMake(key, [&] { return Make(request); }));
    return ResultOf(artefact);
  }

  std::string Toolchain(Backend backend) const override { return backend == Backend::kCuda ? version_ : ""; }

 private:
  CudaBuilder(const CudaBuilderOptions& options, ArtefactStore* store) : options_(options), store_(store) {}

  absl::StatusOr<ArtefactContents> Make(const BuildRequest& request) {
    const SteadyTime start = SteadyTime::Now();
    BuildResult result;
    result.toolchain = version_;
    ArtefactContents contents;
    HONE_RETURN_IF_ERROR(Compile(request, &result, &contents));
    result.seconds = absl::ToDoubleSeconds(SteadyTime::Now() - start);
    contents.record = RecordOf(result);
    contents.keep = result.status != VerdictStatus::kCompileTimeout;
    return contents;
  }

  absl::Status Compile(const BuildRequest& request, BuildResult* result, ArtefactContents* contents) {
    const std::string& source = request.candidate.source;
    if (std::string why = UnusableText(source); !why.empty()) {
      Reject(VerdictStatus::kParse, std::move(why), result);
      return absl::OkStatus();
    }
    const CudaSource parsed(source);
    const RulePolicy policy(request.legality);
    result->rules = CheckSource(parsed, Assembly::kInDeviceCode, policy);
    if (FirstReject(result->rules) != nullptr) {
      Forbid(result);
      return absl::OkStatus();
    }
    if (!DefinesLaunch(parsed)) {
      RejectWithoutLaunch(request, result);
      return absl::OkStatus();
    }
    HONE_ASSIGN_OR_RETURN(const TempFolder folder, TempFolder::Create("hone-nvcc"));
    const Glue glue = MakeGlue(request.signature);
    HONE_RETURN_IF_ERROR(WriteFileAtomically(
        folder.path() + "/unit.cu", absl::StrCat("#include <cstdint>\n#line 1 \"launch\"\n", glue.before, "#line 1 \"candidate.cu\"\n", source,
                                                 "\n#line 1 \"glue\"", glue.after)));
    const SteadyTime deadline = SteadyTime::Now() + request.timeout;
    HONE_RETURN_IF_ERROR(RunTool(CompileCommand(), folder.path(), request, deadline, result));
    if (result->status != VerdictStatus::kOk) return absl::OkStatus();
    HONE_ASSIGN_OR_RETURN(const std::string object, ReadFile(folder.path() + "/unit.o", kArtefactBytes));
    HONE_ASSIGN_OR_RETURN(const ElfSummary summary, SummariseElf(object));
    if (std::find(summary.undefined.begin(), summary.undefined.end(), "launch") != summary.undefined.end()) {
      ReportErrors({{"candidate.cu", 0, "`launch` is not defined as expected"}}, request, result);
      return absl::OkStatus();
    }
    for (const RuleHit& hit : CheckNvccObject(summary, policy)) result->rules.push_back(hit);
    if (FirstReject(result->rules) != nullptr) {
      Forbid(result);
      return absl::OkStatus();
    }
    // The runtime is the runner's: what the object asks of it stays open until the artefact is loaded.
    HONE_RETURN_IF_ERROR(RunTool({"g++", "-shared", "-o", "artefact.so", "unit.o"}, folder.path(), request, deadline, result));
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

  std::vector<std::string> CompileCommand() const {
    std::vector<std::string> command = {nvcc_, "-c", "-std=c++17", "-O3", "-w",
                                        absl::StrCat("-gencode=arch=compute_", options_.architecture.substr(3),
                                                     ",code=", options_.architecture),
                                        "-Xcompiler=-fPIC,-fvisibility=hidden,-fno-threadsafe-statics,-U_FORTIFY_SOURCE"};
    if (options_.rescue_flags) command.insert(command.end(), {"-include", "cfloat", "--expt-relaxed-constexpr"});
    command.insert(command.end(), {"-o", "unit.o", "unit.cu"});
    return command;
  }

  /// A step of the compilation in the job's folder. What it says against the candidate becomes the result's verdict.
  absl::Status RunTool(const std::vector<std::string>& command, const std::string& folder, const BuildRequest& request,
                       SteadyTime deadline, BuildResult* result) const {
    SpawnOptions spawn;
    const std::vector<std::string> environment = {absl::StrCat("PATH=", toolkit_, "/bin:/usr/bin:/bin"), "LC_ALL=C",
                                                  "HOME=/nonexistent", absl::StrCat("TMPDIR=", sandboxed_ ? kInside : folder)};
    spawn.argv = command;
    if (sandboxed_) {
      SandboxSpec box;
      box.read_only = {"/usr"};
      if (!absl::StartsWith(toolkit_, "/usr/")) box.read_only.push_back(toolkit_);
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
    const std::string output = absl::StrReplaceAll(
        run.output, {{"ptxas error   :", "error:"}, {"ptxas fatal   :", "error:"}, {"catastrophic error:", "error:"},
                     {"unit.cu", "candidate.cu"}});
    ReportErrors(ParseCompilerErrors(output), request, result);
    return absl::OkStatus();
  }

  const CudaBuilderOptions options_;
  ArtefactStore* const store_;
  std::string toolkit_;
  std::string nvcc_;
  std::string version_;
  bool sandboxed_ = false;
};

}  // namespace

absl::StatusOr<std::unique_ptr<Builder>> CreateCudaBuilder(const CudaBuilderOptions& options, ArtefactStore* store) {
  return CudaBuilder::Create(options, store);
}

}  // namespace hone::verifier
