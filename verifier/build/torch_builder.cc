#include "verifier/build/torch_builder.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <climits>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <nlohmann/json.hpp>
#include <regex>
#include <set>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "base/file.h"
#include "base/hash.h"
#include "base/status_macros.h"
#include "base/steady_time.h"
#include "base/subprocess.h"
#include "verifier/build/compiler_output.h"
#include "verifier/build/elf_symbols.h"
#include "verifier/build/native_build.h"
#include "verifier/rules/rule.h"
#include "verifier/sandbox/bubblewrap.h"

namespace hone::verifier {
namespace {

using Json = nlohmann::json;

constexpr int64_t kMessageBytes = 256 << 10;
constexpr int64_t kScanBytes = 16 << 20;
constexpr int64_t kFileBytes = int64_t{256} << 20;
constexpr int64_t kMemoryBytes = int64_t{16} << 30;  // address space of one tool
constexpr absl::Duration kScanTime = absl::Seconds(20);
constexpr char kInside[] = "/build";  // the job's folder as its tools see it
constexpr char kModuleName[] = "hone_extension";
constexpr char kOpaqueObject[] = "opaque_torch.o";
constexpr char kRevision[] = "3";  // of command lines and headers; part of every key

std::string RealPath(const std::string& path) {
  char resolved[PATH_MAX];
  return realpath(path.c_str(), resolved) != nullptr ? resolved : path;
}

std::string ToolkitFolder(const std::string& wanted) {
  std::vector<std::string> folders = {wanted};
  for (const char* variable : {"CUDA_HOME", "CUDA_PATH"}) {
    const char* value = std::getenv(variable);
    folders.push_back(value != nullptr ? value : "");
  }
  folders.push_back("/usr/local/cuda");
  for (const std::string& folder : folders) {
    if (!folder.empty() && FileExists(folder + "/bin/nvcc")) return RealPath(folder);
  }
  return "";
}

/// "3.11" of "3.11.7".
std::string MinorVersion(const std::string& version) {
  const size_t dot = version.find('.');
  return version.substr(0, version.find('.', dot == std::string::npos ? dot : dot + 1));
}

// ---- What the scan found. ----

struct Extension {
  std::string key;
  Json request;
  int line = 0;
};

struct Scan {
  std::string error;
  int line = 0;
  std::vector<Extension> extensions;  // each key once
  std::string unresolved;             // of the first call whose arguments are no constants
  bool triton = false;
  std::vector<RuleHit> rules;
};

absl::StatusOr<Scan> ParseScan(const std::string& text) {
  const Json json = Json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (!json.is_object())
    return absl::InternalError(absl::StrCat("the scan of a candidate said: ", text.substr(0, 300)));
  Scan scan;
  scan.error = json.value("error", "");
  scan.line = json.value("line", 0);
  scan.triton = json.value("triton", false);
  std::set<std::string> seen;
  for (const Json& item : json.value("extensions", Json::array())) {
    if (!seen.insert(item.value("key", "")).second) continue;
    scan.extensions.push_back({item.value("key", ""), item.value("request", Json::object()), item.value("line", 0)});
  }
  for (const Json& item : json.value("unresolved", Json::array())) {
    if (scan.unresolved.empty())
      scan.unresolved = absl::StrCat("line ", item.value("line", 0), ": ", item.value("what", ""));
  }
  for (const Json& item : json.value("rules", Json::array())) {
    const Rule* rule = FindRule(item.value("rule", ""));
    if (rule == nullptr) return absl::InternalError(absl::StrCat("the scan of a candidate knows a rule of its own: ", item.dump()));
    scan.rules.push_back({rule->name, rule->severity == Severity::kReject, item.value("evidence", "")});
  }
  return scan;
}

// ---- Flags. ----

/// Whether a flag that the candidate wants changes code and nothing else.
bool IsHarmlessFlag(const std::string& flag) {
  static const std::regex* const kHarmless = new std::regex(
      "-O[0-3s]?|-Ofast|-g|-G|-lineinfo|--generate-line-info|-w|-W[a-z-]*|-march=[a-z0-9-]+|-mtune=[a-z0-9-]+|-mavx[0-"
      "9a-z]*|"
      "-mfma|-msse[0-9.]*|-f(no-)?(fast-math|unroll-loops|finite-math-only|inline-functions|tree-vectorize|PIC|"
      "strict-aliasing|math-errno|associative-math|trapping-math|openmp)|-ffp-contract=[a-z]+|-std=(c|gnu)\\+\\+(14|17|"
      "20)|"
      "--?std=c\\+\\+(14|17|20)|-[DU][A-Za-z_][A-Za-z0-9_]*(=[A-Za-z0-9_.+-]*)?|--?use_fast_math|--?extra-device-"
      "vectorization|"
      "--expt-relaxed-constexpr|--expt-extended-lambda|--extended-lambda|--?maxrregcount=?[0-9]*|--?fmad=(true|false)|"
      "--?ftz=(true|false)|--?prec-(div|sqrt)=(true|false)|--?default-stream=?[a-z-]*|--ptxas-options=[-a-zA-Z0-9=,]+|"
      "-Xptxas(=[-a-zA-Z0-9=,]+)?|-Xcompiler(=[-a-zA-Z0-9=,]+)?|--compiler-options(=[-a-zA-Z0-9=,]+)?|-rdc=false|--"
      "threads=?[0-9]*|"
      "-t=?[0-9]*|-dlcm=[a-z]+|-v|--restrict|-restrict|--resource-usage|-diag-suppress=?[0-9,]*");
  return std::regex_match(flag, *kHarmless);
}

/// Flags that name a GPU are replaced by those of the lane's device.
bool NamesArchitecture(const std::string& flag) {
  return absl::StartsWith(flag, "-arch") || absl::StartsWith(flag, "--gpu-architecture") ||
         absl::StartsWith(flag, "-gencode") || absl::StartsWith(flag, "--generate-code") ||
         absl::StartsWith(flag, "arch=compute_") || absl::StartsWith(flag, "-code=sm_") ||
         absl::StartsWith(flag, "code=sm_") || absl::StartsWith(flag, "sm_") || absl::StartsWith(flag, "compute_");
}

/// The flags to use, or the first that may not be used in `bad`.
std::vector<std::string> ChooseFlags(const Json& wanted, std::string* bad) {
  std::vector<std::string> chosen;
  std::string before;
  for (const Json& item : wanted) {
    std::string flag(absl::StripAsciiWhitespace(item.get<std::string>()));
    // The value of the flag before it: "-Xptxas" "-O3", "--maxrregcount" "64".
    const bool is_value = before == "-Xptxas" || before == "--ptxas-options" || before == "-Xcompiler" ||
                          before == "--compiler-options" || before == "--maxrregcount" || before == "-maxrregcount";
    static const std::regex* const kValue = new std::regex("[-a-zA-Z0-9=,_+]+");
    before = flag;
    if (flag.empty() || NamesArchitecture(flag)) continue;
    if (is_value ? std::regex_match(flag, *kValue) && !absl::StrContains(flag, "plugin") : IsHarmlessFlag(flag)) {
      if (!absl::StartsWith(flag, "-std=") && !absl::StartsWith(flag, "--std=")) chosen.push_back(flag);
    } else if (bad->empty()) {
      *bad = flag;
    }
  }
  return chosen;
}

// ---- Sources. ----

std::string Join(const Json& texts) {
  std::string all;
  for (const Json& text : texts) absl::StrAppend(&all, text.get<std::string>(), "\n");
  return all;
}

std::string MainSource(const Json& request) {
  std::string text;
  if (request.value("implicit_headers", true)) text = "#include <torch/extension.h>\n";
  absl::StrAppend(&text, "#line 1 \"cpp_source\"\n", Join(request.at("cpp")));
  if (!request.at("functions").is_object()) return text;
  const bool wraps = request.value("error_handling", true);
  absl::StrAppend(&text, "\n#line 1 \"binding\"\nPYBIND11_MODULE(TORCH_EXTENSION_NAME, m) {\n");
  for (const auto& [name, text_of] : request.at("functions").items()) {
    absl::StrAppend(&text, "m.def(\"", name, "\", ", wraps ? "torch::wrap_pybind_function(" : "(", name, "), \"\");\n");
  }
  return text + "}\n";
}

bool IsMusa(const Json& request) { return request.value("musa", false); }

std::string CudaSourceText(const Json& request) {
  std::string text;
  if (request.value("implicit_headers", true)) {
    text = IsMusa(request) ? "#include <torch/types.h>\n#include <musa.h>\n#include <musa_runtime.h>\n"
                           : "#include <torch/types.h>\n#include <cuda.h>\n#include <cuda_runtime.h>\n";
  }
  return absl::StrCat(text, "#line 1 \"", IsMusa(request) ? "musa" : "cuda", "_source\"\n", Join(request.at("cuda")));
}

bool UsesBinding(const std::string& source) {
  return absl::StrContains(source, "pybind") || absl::StrContains(source, "PYBIND11") ||
         absl::StrContains(source, "py::");
}

/// Includes of the operators that a source names as functions: `torch::empty_like`, `at::mm`.
std::string OperatorHeaders(const std::string& source, const std::string& torch_folder) {
  static const std::regex* const kName = new std::regex("\\b(?:torch|at)::(?:indexing::)?([a-z_][a-z0-9_]*)");
  std::set<std::string> names;
  for (std::sregex_iterator at(source.begin(), source.end(), *kName), end; at != end; ++at) names.insert((*at)[1]);
  std::string text;
  for (const std::string& name : names) {
    if (!FileExists(absl::StrCat(torch_folder, "/include/ATen/ops/", name, ".h"))) continue;
    absl::StrAppend(&text, "#include <ATen/ops/", name, ".h>\n");
  }
  return text;
}

/// Whether a failure may be one of the light headers' making.
bool MayNeedFullHeaders(const std::vector<CompilerError>& errors) {
  for (const CompilerError& error : errors) {
    if (error.file == "binding") continue;  // a function that the source does not declare
    for (const char* sign : {"torch", "at::", "c10", "pybind", "py::", "Tensor", "has no member", "not been declared",
                             "was not declared", "is undefined", "incomplete type", "No such file", "could not open",
                             "not a member", "has not been", "namespace"}) {
      if (absl::StrContains(error.message, sign)) return true;
    }
  }
  return errors.empty();
}

/// Whether a failure may be the making of headers in which tensors are handles: they lack more, and what they have, they
/// have in fewer forms.
bool MayNeedTensors(const std::vector<CompilerError>& errors) {
  for (const CompilerError& error : errors) {
    if (absl::StrContains(error.file, "opaque")) return true;
    for (const char* sign : {"opaque", "no instance", "no matching", "no suitable", "no operator", "more than one", "redefinition",
                             "already been d", "redeclared", "conflicting", "ambiguous", "incompatible"}) {
      if (absl::StrContains(error.message, sign)) return true;
    }
  }
  return MayNeedFullHeaders(errors);
}

/// Symbols that neither a kernel nor its binding asks for.
std::string ForbiddenSymbol(const ElfSummary& object) {
  static const std::set<std::string>* const kForbidden = new std::set<std::string>{"system",
                                                                                   "popen",
                                                                                   "fork",
                                                                                   "vfork",
                                                                                   "execve",
                                                                                   "execv",
                                                                                   "execvp",
                                                                                   "execl",
                                                                                   "execlp",
                                                                                   "posix_spawn",
                                                                                   "dlopen",
                                                                                   "dlsym",
                                                                                   "socket",
                                                                                   "connect",
                                                                                   "bind",
                                                                                   "ptrace",
                                                                                   "prctl",
                                                                                   "mprotect",
                                                                                   "process_vm_readv",
                                                                                   "process_vm_writev",
                                                                                   "syscall",
                                                                                   "kill",
                                                                                   "clone",
                                                                                   "setrlimit",
                                                                                   "signal",
                                                                                   "sigaction",
                                                                                   "pthread_create",
                                                                                   "open",
                                                                                   "fopen",
                                                                                   "mmap"};
  for (const std::string& symbol : object.undefined) {
    if (kForbidden->count(symbol) != 0) return symbol;
  }
  return "";
}

/// cuBLAS, cuDNN and their like, called by name.
std::string LibrarySymbol(const ElfSummary& object) {
  for (const std::string& symbol : object.undefined) {
    for (const char* prefix : {"cublas", "cudnn", "cusparse", "cusolver", "cufft", "curand", "mublas", "mudnn", "musparse",
                               "musolver", "mufft", "murand"}) {
      if (absl::StartsWith(symbol, prefix)) return symbol;
    }
  }
  return "";
}

class TorchBuilder final : public Builder {
 public:
  static absl::StatusOr<std::unique_ptr<Builder>> Create(const TorchBuilderOptions& options, ArtefactStore* store) {
    std::unique_ptr<TorchBuilder> builder(new TorchBuilder(options, store));
    HONE_RETURN_IF_ERROR(builder->Find());
    return std::unique_ptr<Builder>(std::move(builder));
  }

  absl::StatusOr<BuildResult> Build(const BuildRequest& request) override {
    const std::string key = KeyOf("candidate", request.candidate.source, request);
    HONE_ASSIGN_OR_RETURN(const Artefact artefact, store_->FindOrMake(key, [&] { return Make(request); }));
    HONE_ASSIGN_OR_RETURN(BuildResult result, ResultOf(artefact));
    result.format = request.candidate.format;
    return result;
  }

  absl::StatusOr<std::optional<BuildResult>> RejectUnbuilt(const BuildRequest& request) override {
    const SteadyTime start = SteadyTime::Now();
    BuildResult result;
    HONE_ASSIGN_OR_RETURN(const std::optional<Scan> scan, ReadCandidate(request, &result));
    if (scan) return std::nullopt;
    result.format = request.candidate.format;
    result.toolchain = Toolchain(request.candidate.backend);
    result.seconds = absl::ToDoubleSeconds(SteadyTime::Now() - start);
    return result;
  }

  std::string Toolchain(Backend backend) const override {
    if (backend == Backend::kCuda && toolkit_.empty()) return "";
    const std::string python = absl::StrCat("torch ", options_.python.torch_version, " python ", python_version_);
    if (backend == Backend::kMusa) return options_.musa.empty() ? "" : absl::StrCat(options_.musa, " ", python);
    return backend == Backend::kCpu ? python : absl::StrCat(python, " ", options_.architecture);
  }

 private:
  TorchBuilder(const TorchBuilderOptions& options, ArtefactStore* store) : options_(options), store_(store) {}

  absl::Status Find() {
    const PythonEnvironment& python = options_.python;
    includes_ = options_.target_includes.empty() ? python.includes : options_.target_includes;
    python_version_ = MinorVersion(options_.target_version.empty() ? python.version : options_.target_version);
    toolkit_ = ToolkitFolder(options_.toolkit);
    headers_ = ResourcePath("torch/light");
    opaque_ = ResourcePath("torch/opaque");
    scan_folder_ = ResourcePath("torch");
    HONE_ASSIGN_OR_RETURN(const std::string sandbox, ChooseSandbox(options_.sandbox));
    sandboxed_ = sandbox == "bubblewrap";
    return absl::OkStatus();
  }

  std::string KeyOf(const char* kind, const std::string& content, const BuildRequest& request) const {
    std::string policy = request.legality.allow_library_kernels ? "library" : "";
    for (const std::string& rule : request.legality.disabled_rules) absl::StrAppend(&policy, " ", rule);
    const Backend backend = request.candidate.backend;
    return ContentKey({"python", kind, content, std::string(Name(backend)), Toolchain(backend), policy, kRevision});
  }

  absl::StatusOr<ArtefactContents> Make(const BuildRequest& request) {
    return Recorded(Toolchain(request.candidate.backend), [&](BuildResult* result, ArtefactContents* contents) {
      return MakeBundle(request, result, contents);
    });
  }

  absl::Status MakeBundle(const BuildRequest& request, BuildResult* result, ArtefactContents* contents) {
    HONE_ASSIGN_OR_RETURN(const std::optional<Scan> scan, ReadCandidate(request, result));
    if (!scan) return absl::OkStatus();
    const SteadyTime deadline = SteadyTime::Now() + request.timeout;
    Json index = {{"source", request.candidate.source}, {"triton", scan->triton}, {"extensions", Json::array()}};
    std::string blobs;
    for (const Extension& extension : scan->extensions) {
      HONE_ASSIGN_OR_RETURN(const std::string built, BuildExtension(extension, request, deadline, result));
      if (result->status != VerdictStatus::kOk) return absl::OkStatus();
      index["extensions"].push_back(
          {{"key", extension.key}, {"name", kModuleName}, {"offset", blobs.size()}, {"bytes", built.size()}});
      blobs += built;
    }
    const std::string text = index.dump();
    std::string bundle = "HONEPY1\n";
    const uint64_t length = text.size();
    bundle.append(reinterpret_cast<const char*>(&length), sizeof length);
    contents->files.emplace_back(kTimedFile, bundle + text + blobs);
    return absl::OkStatus();
  }

  /// Nothing: its text alone rejects it, as `result` says.
  absl::StatusOr<std::optional<Scan>> ReadCandidate(const BuildRequest& request, BuildResult* result) const {
    if (std::string why = UnusableText(request.candidate.source); !why.empty()) {
      Reject(VerdictStatus::kParse, std::move(why), result);
      return std::nullopt;
    }
    HONE_ASSIGN_OR_RETURN(Scan scan, Read(request.candidate.source));
    if (!IsWorthBuilding(scan, request, result)) return std::nullopt;
    return scan;
  }

  /// The scan, in its own process; the source is its standard input.
  absl::StatusOr<Scan> Read(const std::string& source) const {
    const UniqueFd input(memfd_create("candidate", MFD_CLOEXEC));
    if (!input || write(input.get(), source.data(), source.size()) != static_cast<ssize_t>(source.size()) ||
        lseek(input.get(), 0, SEEK_SET) != 0) {
      return ErrnoStatus(errno, "handing a candidate to its scan");
    }
    SpawnOptions spawn;
    spawn.argv = {options_.python.executable, "-I", "-S", scan_folder_ + "/torch_scan.py"};
    if (sandboxed_) {
      SandboxSpec box;
      box.read_only = options_.python.folders;
      box.read_only.push_back(scan_folder_);
      spawn.argv = InSandbox(box, spawn.argv);
    }
    spawn.pass_fds = {{input.get(), 0}};
    spawn.address_space_bytes = int64_t{2} << 30;
    spawn.cpu_seconds = absl::ToInt64Seconds(kScanTime);
    HONE_ASSIGN_OR_RETURN(const RunResult run, Run(spawn, kScanTime, kScanBytes));
    if (run.timed_out || run.exit_code > 128) {
      Scan scan;
      scan.error = "reading the module takes too long";
      return scan;
    }
    return ParseScan(run.output);
  }

  static bool IsDisabled(const std::string& rule, const LegalityPolicy& policy) {
    return std::find(policy.disabled_rules.begin(), policy.disabled_rules.end(), rule) != policy.disabled_rules.end();
  }

  /// False with the verdict in `result`.
  static bool IsWorthBuilding(const Scan& scan, const BuildRequest& request, BuildResult* result) {
    if (!scan.error.empty()) {
      const bool no_model = absl::StartsWith(scan.error, "no class");
      Reject(no_model ? VerdictStatus::kParse : VerdictStatus::kCompile,
             absl::StrCat(scan.line > 0 ? absl::StrCat("line ", scan.line, ": ") : "", scan.error), result);
      return false;
    }
    const auto forbid = [&](const std::string& rule, const std::string& evidence) {
      if (!IsDisabled(rule, request.legality)) result->rules.push_back({rule, true, evidence});
    };
    for (const RuleHit& hit : scan.rules) {
      const bool said_below = hit.rule == "no_custom_kernel";
      if (!said_below && !IsDisabled(hit.rule, request.legality)) result->rules.push_back(hit);
    }
    if (!scan.unresolved.empty()) forbid("unresolved_extension", scan.unresolved);
    if (scan.extensions.empty() && !scan.triton && scan.unresolved.empty() && !request.legality.allow_library_kernels) {
      forbid("no_custom_kernel", "the module asks for no extension and defines no Triton kernel");
    }
    if (FirstReject(result->rules) == nullptr) return true;
    Forbid(result);
    return false;
  }

  // ---- One extension. ----

  /// Its bytes, or the verdict in `result`. Candidates that ask for the same extension share it.
  absl::StatusOr<std::string> BuildExtension(const Extension& extension, const BuildRequest& request,
                                             SteadyTime deadline, BuildResult* result) const {
    HONE_ASSIGN_OR_RETURN(const Artefact artefact, store_->FindOrMake(KeyOf("extension", extension.key, request), [&] {
      return Recorded(Toolchain(request.candidate.backend), [&](BuildResult* part, ArtefactContents* contents) {
        return MakeExtension(extension, request, deadline, part, contents);
      });
    }));
    HONE_ASSIGN_OR_RETURN(const BuildResult part, ResultOf(artefact));
    if (part.status == VerdictStatus::kOk) return ReadFile(part.artefact, kFileBytes);
    result->status = part.status;
    result->message = part.message;
    result->compiler_output = part.compiler_output;
    result->rules = part.rules;
    return std::string();
  }

  absl::Status MakeExtension(const Extension& extension, const BuildRequest& request, SteadyTime deadline,
                             BuildResult* result, ArtefactContents* contents) const {
    const bool cuda = !extension.request.at("cuda").empty();
    if (includes_.empty()) {
      return absl::FailedPreconditionError(
          absl::StrCat("Python ", python_version_, "'s headers are not installed: extensions cannot be built"));
    }
    const bool for_musa = request.candidate.backend == Backend::kMusa;
    if (cuda && (request.candidate.backend == Backend::kCpu || for_musa != IsMusa(extension.request) ||
                 (for_musa && !options_.musa_compiler))) {
      const char* vendor = IsMusa(extension.request) ? "MUSA" : "CUDA";
      Reject(VerdictStatus::kCompile,
             absl::StrCat("line ", extension.line, ": ", vendor, " sources, on a device without ", vendor), result);
      return absl::OkStatus();
    }
    if (cuda && !for_musa && toolkit_.empty()) {
      return absl::FailedPreconditionError(
          "CUDA extensions need nvcc, which is not found: set CUDA_HOME to a CUDA toolkit");
    }
    std::string bad;
    const std::vector<std::string> flags = ChooseFlags(extension.request.at("cflags"), &bad);
    const std::vector<std::string> cuda_flags = ChooseFlags(extension.request.at("cuda_cflags"), &bad);
    if (!bad.empty()) {
      result->rules.push_back({"compiler_flag", true, bad});
      Forbid(result);
      return absl::OkStatus();
    }
    HONE_ASSIGN_OR_RETURN(const TempFolder folder, TempFolder::Create("hone-torch"));
    Job job{folder.path(), request, deadline, MainSource(extension.request), "", {}, {}, Backend::kCpu};
    job.backend = request.candidate.backend;
    job.cpp_flags = flags;
    job.cuda_flags = cuda_flags;
    if (cuda) job.cuda = CudaSourceText(extension.request);
    HONE_RETURN_IF_ERROR(WriteSources(job));
    if (!for_musa) {
      HONE_ASSIGN_OR_RETURN(job.opaque_folder, OpaqueFolder(job));
    }
    HONE_RETURN_IF_ERROR(CompileParts(job, result));
    if (result->status != VerdictStatus::kOk) return absl::OkStatus();
    HONE_ASSIGN_OR_RETURN(Step linked, LinkParts(job, extension, result));
    if (!linked.ok && !linked.timed_out && !job.opaque_folder.empty() && result->status == VerdictStatus::kOk) {
      // What the parts hand each other may be more than tensors.
      job.opaque_folder.clear();
      HONE_RETURN_IF_ERROR(CompileParts(job, result));
      if (result->status != VerdictStatus::kOk) return absl::OkStatus();
      HONE_ASSIGN_OR_RETURN(linked, LinkParts(job, extension, result));
    }
    if (result->status != VerdictStatus::kOk) return absl::OkStatus();
    if (!linked.ok) {
      Report(job, linked, result);
      return absl::OkStatus();
    }
    HONE_ASSIGN_OR_RETURN(std::string built, ReadFile(job.folder + "/extension.so", kFileBytes));
    contents->files.emplace_back(kTimedFile, std::move(built));
    return absl::OkStatus();
  }

  struct Job {
    std::string folder;
    const BuildRequest& request;
    SteadyTime deadline;
    std::string main;
    std::string cuda;  // empty: none
    std::vector<std::string> cpp_flags;
    std::vector<std::string> cuda_flags;
    Backend backend = Backend::kCpu;
    std::string opaque_folder;  // of the object behind tensors as handles; empty: they are torch's
  };

  absl::Status WriteSources(const Job& job) const {
    HONE_RETURN_IF_ERROR(WriteFileAtomically(job.folder + "/main.cpp", job.main));
    HONE_RETURN_IF_ERROR(
        WriteFileAtomically(job.folder + "/main_operators.h", OperatorHeaders(job.main, options_.python.torch_folder)));
    if (job.cuda.empty()) return absl::OkStatus();
    HONE_RETURN_IF_ERROR(WriteFileAtomically(absl::StrCat(job.folder, "/", DeviceFile(job.backend)), job.cuda));
    return WriteFileAtomically(job.folder + "/cuda_operators.h",
                               OperatorHeaders(job.cuda, options_.python.torch_folder));
  }

  struct Step {
    absl::Status status;
    bool ok = false;
    bool timed_out = false;
    std::string output;
  };

  /// The binding first: it takes a quarter of the time, and most that does not build fails there.
  absl::Status CompileParts(const Job& job, BuildResult* result) const {
    for (const bool cuda : {false, true}) {
      if (cuda && job.cuda.empty()) continue;
      const Step step = CompilePart(job, cuda);
      HONE_RETURN_IF_ERROR(step.status);
      if (step.ok) continue;
      Report(job, step, result);
      return absl::OkStatus();
    }
    return absl::OkStatus();
  }

  /// Which headers of torch's a part is compiled with, from the smallest to torch's own.
  enum class Headers { kOpaque, kLight, kFull };

  Step CompilePart(const Job& job, bool cuda) const {
    const auto ended = [](const Step& step) { return !step.status.ok() || step.ok || step.timed_out; };
    if (!job.opaque_folder.empty()) {
      Step opaque = RunTool(CompileCommand(job, cuda, Headers::kOpaque), job);
      if (ended(opaque) || !MayNeedTensors(ParseCompilerErrors(opaque.output))) return opaque;
    }
    Step light = RunTool(CompileCommand(job, cuda, Headers::kLight), job);
    if (ended(light) || !MayNeedFullHeaders(ParseCompilerErrors(light.output))) return light;
    return RunTool(CompileCommand(job, cuda, Headers::kFull), job);
  }

  /// The folder of the object behind tensors as handles, compiled once for all extensions; "" where it does not compile.
  absl::StatusOr<std::string> OpaqueFolder(const Job& job) const {
    HONE_ASSIGN_OR_RETURN(const std::string source, ReadFile(absl::StrCat(opaque_, "/opaque_torch.cc"), kFileBytes));
    const std::string key = ContentKey({"python", "opaque", source, Toolchain(job.backend), kRevision});
    HONE_ASSIGN_OR_RETURN(const Artefact artefact, store_->FindOrMake(key, [&] { return MakeOpaqueObject(job, source); }));
    return artefact.record == kOpaqueObject ? artefact.folder : std::string();
  }

  absl::StatusOr<ArtefactContents> MakeOpaqueObject(const Job& of, const std::string& source) const {
    HONE_ASSIGN_OR_RETURN(const TempFolder folder, TempFolder::Create("hone-torch"));
    Job job{folder.path(), of.request, of.deadline, source, "", {}, {}, of.backend, ""};
    HONE_RETURN_IF_ERROR(WriteSources(job));
    std::vector<std::string> command = CompileCommand(job, /*cuda=*/false, Headers::kFull);
    command.emplace_back("-O2");
    if (of.backend == Backend::kCuda) command.emplace_back("-DHONE_OPAQUE_CUDA");
    const Step step = RunTool(command, job);
    HONE_RETURN_IF_ERROR(step.status);
    ArtefactContents contents;
    contents.keep = !step.timed_out;
    if (!step.ok) return contents;  // another torch than this was written for: extensions have torch's own tensors
    HONE_ASSIGN_OR_RETURN(std::string object, ReadFile(job.folder + "/main.o", kFileBytes));
    contents.record = kOpaqueObject;
    contents.files.emplace_back(kOpaqueObject, std::move(object));
    return contents;
  }

  std::vector<std::string> CompileCommand(const Job& job, bool cuda, Headers headers) const {
    const std::string& torch = options_.python.torch_folder;
    std::vector<std::string> command;
    if (cuda && job.backend == Backend::kMusa) {
      command = options_.musa_compiler->command;
    } else if (cuda) {
      command = {
          toolkit_ + "/bin/nvcc",
          "-c",
          "-std=c++17",
          "-w",
          absl::StrCat("-gencode=arch=compute_", options_.architecture.substr(3), ",code=", options_.architecture),
          "-Xcompiler=-fPIC",
          "-D__CUDA_NO_HALF_OPERATORS__",
          "-D__CUDA_NO_HALF_CONVERSIONS__",
          "-D__CUDA_NO_BFLOAT16_CONVERSIONS__",
          "-D__CUDA_NO_HALF2_OPERATORS__",
          "--expt-relaxed-constexpr"};
    } else {
      // On the CPU the C++ part is the kernel; beside device code it is a binding that is called once.
      command = {"g++", "-c", "-std=c++17", "-w", "-fPIC", DeviceLibraries(job.backend).empty() ? "-O2" : "-O0"};
    }
    if (headers == Headers::kOpaque) command.push_back(absl::StrCat("-I", opaque_));
    if (headers == Headers::kLight) command.push_back(absl::StrCat("-I", headers_));
    if (UsesBinding(cuda ? job.cuda : job.main)) command.push_back("-DHONE_WITH_BINDING");
    for (const std::string& folder : {torch + "/include", torch + "/include/torch/csrc/api/include"}) {
      command.insert(command.end(), {"-isystem", folder});
    }
    if (job.backend != Backend::kCpu && !cuda) {
      for (const std::string& folder : ToolkitIncludes(job.backend)) command.insert(command.end(), {"-isystem", folder});
    }
    for (const std::string& folder : includes_) command.insert(command.end(), {"-isystem", folder});
    command.insert(command.end(),
                   {absl::StrCat("-DTORCH_EXTENSION_NAME=", kModuleName), "-DTORCH_API_INCLUDE_EXTENSION_H",
                    absl::StrCat("-DHONE_OPERATORS=\"", cuda ? "cuda" : "main", "_operators.h\""), "-I."});
    const std::vector<std::string>& flags = cuda ? job.cuda_flags : job.cpp_flags;
    command.insert(command.end(), flags.begin(), flags.end());
    command.insert(command.end(), {"-o", cuda ? "cuda.o" : "main.o", cuda ? DeviceFile(job.backend) : "main.cpp"});
    return command;
  }

  static const char* DeviceFile(Backend backend) { return backend == Backend::kMusa ? "musa.mu" : "cuda.cu"; }

  /// Folders of a device's headers, for host code; those of a compatibility toolchain stand for themselves.
  std::vector<std::string> ToolkitIncludes(Backend backend) const {
    if (backend != Backend::kMusa) return {toolkit_ + "/include"};
    if (!options_.musa_compiler) return {};
    std::vector<std::string> folders = options_.musa_compiler->extra_folders;
    folders.push_back(options_.musa_compiler->folder + "/include");
    return folders;
  }

  /// What a device's extension is linked with. The compatibility toolchain's runtime is the runner's.
  std::vector<std::string> DeviceLibraries(Backend backend) const {
    if (backend == Backend::kCpu || (backend == Backend::kMusa && !options_.musa_compiler)) return {};
    return {"-lc10_cuda", "-ltorch_cuda", absl::StrCat("-L", toolkit_, "/lib64"), "-lcudart"};
  }

  /// What the linker said; nothing where the objects are rejected before it.
  absl::StatusOr<Step> LinkParts(const Job& job, const Extension& extension, BuildResult* result) const {
    HONE_RETURN_IF_ERROR(CheckObjects(job, result));
    if (result->status != VerdictStatus::kOk) return Step();
    const std::string libraries = options_.python.torch_folder + "/lib";
    std::vector<std::string> command = {"g++", "-shared", "-o", "extension.so", "-s", "main.o"};
    if (!job.cuda.empty()) command.push_back("cuda.o");
    if (!job.opaque_folder.empty()) command.push_back(absl::StrCat(job.opaque_folder, "/", kOpaqueObject));
    command.insert(command.end(), {"-L" + libraries, "-lc10", "-ltorch_cpu", "-ltorch", "-ltorch_python"});
    const std::vector<std::string> device = DeviceLibraries(job.backend);
    command.insert(command.end(), device.begin(), device.end());
    if (job.backend == Backend::kCuda) {
      for (const Json& flag : extension.request.at("ldflags")) {
        const std::string text = flag.get<std::string>();
        if (text == "-lcublas" || text == "-lcudnn" || text == "-lcurand" || text == "-lcusparse")
          command.push_back(text);
      }
    }
    Step step = RunTool(command, job);
    HONE_RETURN_IF_ERROR(step.status);
    return step;
  }

  absl::Status CheckObjects(const Job& job, BuildResult* result) const {
    for (const char* file : {"/main.o", "/cuda.o"}) {
      if (!FileExists(job.folder + file)) continue;
      HONE_ASSIGN_OR_RETURN(const std::string bytes, ReadFile(job.folder + file, kFileBytes));
      HONE_ASSIGN_OR_RETURN(const ElfSummary object, SummariseElf(bytes));
      const auto forbid = [&](const char* rule, const std::string& symbol) {
        if (!symbol.empty() && !IsDisabled(rule, job.request.legality)) result->rules.push_back({rule, true, symbol});
      };
      forbid("foreign_symbol", ForbiddenSymbol(object));
      if (!job.request.legality.allow_library_kernels) forbid("library_compute", LibrarySymbol(object));
    }
    if (!result->rules.empty()) Forbid(result);
    return absl::OkStatus();
  }

  void Report(const Job& job, const Step& step, BuildResult* result) const {
    if (step.timed_out) {
      Reject(VerdictStatus::kCompileTimeout,
             absl::StrCat("the compilers did not end within ", absl::FormatDuration(job.request.timeout)), result);
      return;
    }
    std::string output = step.output;
    std::vector<CompilerError> errors = ParseCompilerErrors(output);
    if (errors.empty()) {  // the linker's have no word "error"
      const size_t at = output.find("undefined reference to ");
      if (at != std::string::npos) errors.push_back({"", 0, output.substr(at, output.find('\n', at) - at)});
    }
    ReportErrors(std::move(errors), job.request, SourceDialect(job.backend), result);
  }

  Step RunTool(const std::vector<std::string>& command, const Job& job) const {
    SpawnOptions spawn;
    const std::vector<std::string> environment = {
        absl::StrCat("PATH=", toolkit_.empty() ? "" : toolkit_ + "/bin:", "/usr/bin:/bin"), "LC_ALL=C",
        "HOME=/nonexistent", absl::StrCat("TMPDIR=", sandboxed_ ? kInside : job.folder)};
    spawn.argv = command;
    if (sandboxed_) {
      SandboxSpec box;
      box.read_only = {"/usr", options_.python.torch_folder, headers_, opaque_};
      if (!job.opaque_folder.empty()) box.read_only.push_back(job.opaque_folder);
      for (const std::string& folder : includes_) {
        if (!absl::StartsWith(folder, "/usr/")) box.read_only.push_back(folder);
      }
      std::vector<std::string> toolkits = {toolkit_};
      if (options_.musa_compiler) toolkits = options_.musa_compiler->Folders();
      for (const std::string& folder : toolkits) {
        if (!folder.empty() && !absl::StartsWith(folder, "/usr/")) box.read_only.push_back(folder);
      }
      box.read_only_try = {"/bin", "/etc/alternatives"};
      box.writable = {{job.folder, kInside}};
      box.folder = kInside;
      box.environment = environment;
      spawn.argv = InSandbox(box, command);
    }
    spawn.argv.insert(spawn.argv.begin(), {"nice", "-n", absl::StrCat(options_.niceness)});
    spawn.working_folder = job.folder;
    spawn.environment = environment;
    if (const char* path = std::getenv("PATH"))
      absl::StrAppend(&spawn.environment.front(), ":", path);  // where bwrap may be
    spawn.inherit_environment = false;
    spawn.address_space_bytes = kMemoryBytes;
    spawn.file_bytes = kFileBytes;
    spawn.cpu_seconds = absl::ToInt64Seconds(job.request.timeout) + 1;
    Step step;
    const absl::StatusOr<RunResult> run =
        Run(spawn, std::max(job.deadline - SteadyTime::Now(), absl::ZeroDuration()), kMessageBytes);
    if (!run.ok()) {
      step.status = run.status();
      return step;
    }
    step.timed_out = run->timed_out || run->exit_code == 128 + SIGXCPU;
    step.ok = run->exit_code == 0 && !step.timed_out;
    step.output = absl::StrReplaceAll(
        run->output, {{"ptxas error   :", "error:"}, {"ptxas fatal   :", "error:"}, {"catastrophic error:", "error:"}});
    if (!step.ok && (absl::StartsWith(run->output, "bwrap:") || absl::StartsWith(run->output, "nice:"))) {
      step.status =
          absl::UnavailableError(absl::StrCat("the compiler cannot be started: ", run->output.substr(0, 300)));
    }
    return step;
  }

  const TorchBuilderOptions options_;
  ArtefactStore* const store_;
  std::vector<std::string> includes_;
  std::string python_version_;
  std::string toolkit_;  // empty: no nvcc
  std::string headers_;  // the light ones
  std::string opaque_;   // those that make tensors handles
  std::string scan_folder_;
  bool sandboxed_ = false;
};

}  // namespace

absl::StatusOr<std::unique_ptr<Builder>> CreateTorchBuilder(const TorchBuilderOptions& options, ArtefactStore* store) {
  return TorchBuilder::Create(options, store);
}

}  // namespace hone::verifier
