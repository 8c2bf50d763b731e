#include "verifier/build/cpu_builder.h"

#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/time/clock.h"
#include "base/file.h"
#include "base/hash.h"
#include "base/status_macros.h"
#include "base/strings.h"
#include "nlohmann/json.hpp"
#include "verifier/build/compiler_output.h"
#include "verifier/build/cpu_compiler.h"
#include "verifier/build/cuda_source.h"
#include "verifier/build/elf_symbols.h"
#include "verifier/build/glue.h"
#include "verifier/build/legality.h"
#include "verifier/build/rewriter.h"

namespace hone::verifier {
namespace {

constexpr size_t kMaxSourceBytes = 1 << 20;
constexpr char kTimedFile[] = "artefact.so";
constexpr char kCheckedFile[] = "checked.so";

/// Why a source is not worth a compiler, or nothing.
std::string UnusableText(absl::string_view source) {
  if (source.find_first_not_of(" \t\r\n") == absl::string_view::npos) return "the candidate is empty";
  if (source.size() > kMaxSourceBytes) {
    return absl::StrCat("the candidate has ", source.size(), " bytes; at most ", kMaxSourceBytes, " are allowed");
  }
  const size_t zero = source.find('\0');
  if (zero != absl::string_view::npos) return absl::StrCat("the candidate has a NUL byte at offset ", zero);
  const size_t foreign = FirstNonUtf8(source);
  if (foreign != absl::string_view::npos) return absl::StrCat("the candidate is not UTF-8 at byte ", foreign);
  return "";
}

std::string RecordOf(const BuildResult& result) {
  nlohmann::json rules = nlohmann::json::array();
  for (const RuleHit& hit : result.rules) rules.push_back({hit.rule, hit.reject, hit.evidence});
  return nlohmann::json{{"status", static_cast<int>(result.status)},
                        {"message", result.message},
                        {"compiler_output", result.compiler_output},
                        {"toolchain", result.toolchain},
                        {"rules", rules},
                        {"checked", !result.checked_artefact.empty()},
                        {"seconds", result.seconds}}
      .dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

absl::StatusOr<BuildResult> ResultOf(const Artefact& artefact) {
  const auto json = nlohmann::json::parse(artefact.record, nullptr, /*allow_exceptions=*/false);
  if (!json.is_object()) return absl::DataLossError(absl::StrCat("the build record in ", artefact.folder, " is not JSON"));
  BuildResult result;
  result.status = static_cast<VerdictStatus>(json.value("status", static_cast<int>(VerdictStatus::kInfra)));
  result.message = json.value("message", "");
  result.compiler_output = json.value("compiler_output", "");
  result.toolchain = json.value("toolchain", "");
  for (const auto& hit : json.value("rules", nlohmann::json::array())) {
    result.rules.push_back({hit.at(0), hit.at(1), hit.at(2)});
  }
  result.from_cache = artefact.found;
  result.seconds = artefact.found ? 0 : json.value("seconds", 0.0);
  if (result.status == VerdictStatus::kOk) {
    result.artefact = absl::StrCat(artefact.folder, "/", kTimedFile);
    result.checked_artefact =
        json.value("checked", false) ? absl::StrCat(artefact.folder, "/", kCheckedFile) : result.artefact;
  }
  return result;
}

class CpuBuilder final : public Builder {
 public:
  CpuBuilder(CpuBuilderOptions options, std::unique_ptr<CpuCompiler> compiler, ArtefactStore* store)
      : options_(std::move(options)), compiler_(std::move(compiler)), store_(store) {}

  absl::StatusOr<BuildResult> Build(const BuildRequest& request) override {
    const std::string key =
        ContentKey({"cpu", request.candidate.source, request.signature.Declaration(), compiler_->toolchain().identity,
                    options_.rescue_flags ? "" : "bare"});
    HONE_ASSIGN_OR_RETURN(const Artefact artefact, store_->FindOrMake(key, [&] { return Make(request); }));
    return ResultOf(artefact);
  }

  std::string Toolchain(Backend backend) const override {
    return backend == Backend::kCpu ? compiler_->toolchain().version : "";
  }

 private:
  absl::StatusOr<ArtefactContents> Make(const BuildRequest& request) {
    const absl::Time start = absl::Now();
    BuildResult result;
    result.toolchain = compiler_->toolchain().version;
    ArtefactContents contents;
    HONE_RETURN_IF_ERROR(Compile(request, &result, &contents));
    result.seconds = absl::ToDoubleSeconds(absl::Now() - start);
    contents.record = RecordOf(result);
    contents.keep = result.status != VerdictStatus::kCompileTimeout;
    return contents;
  }

  absl::Status Compile(const BuildRequest& request, BuildResult* result, ArtefactContents* contents) {
    const std::string& source = request.candidate.source;
    if (std::string why = UnusableText(source); !why.empty()) return Reject(VerdictStatus::kParse, std::move(why), result);
    result->rules = CheckSource(CudaSource(source));
    if (!result->rules.empty()) return Forbid(result);
    RewriteOptions options;
    options.relaxed_constexpr = options_.rescue_flags;
    const Rewritten timed = RewriteCuda(source, options);
    if (!timed.defines_launch) {
      return Reject(VerdictStatus::kParse, absl::StrCat("no definition of `launch`; expected ", request.signature.Declaration()),
                    result);
    }
    if (!timed.errors.empty()) {
      std::vector<CompilerError> errors;
      for (const SourceError& error : timed.errors) errors.push_back({"candidate.cu", error.line, error.message});
      return Report(errors, request, result);
    }
    using Level = CompileOptions::Level;
    const Level level = timed.has_local_arrays ? Level::kFull : Level::kQuick;
    HONE_RETURN_IF_ERROR(CompileOne(timed.source, level, request, result, contents));
    if (result->status != VerdictStatus::kOk || !timed.has_arrays) return absl::OkStatus();
    options.checked = true;
    HONE_RETURN_IF_ERROR(CompileOne(RewriteCuda(source, options).source, Level::kChecked, request, result, contents));
    result->checked_artefact = kCheckedFile;
    return absl::OkStatus();
  }

  absl::Status CompileOne(const std::string& rewritten, CompileOptions::Level level, const BuildRequest& request,
                          BuildResult* result, ArtefactContents* contents) {
    const Glue glue = MakeGlue(request.signature);
    const std::string unit =
        absl::StrCat("#line 1 \"launch\"\n", glue.before,
                     "#line 1 \"candidate.cu\"\n", rewritten, "\n#line 1 \"glue\"", glue.after);
    HONE_ASSIGN_OR_RETURN(CompileOutput output, compiler_->Compile(unit, {level, options_.rescue_flags}, request.timeout));
    if (output.timed_out) {
      return Reject(VerdictStatus::kCompileTimeout,
                    absl::StrCat("the compiler did not end within ", absl::FormatDuration(request.timeout)), result);
    }
    if (!output.ok) return Report(ParseCompilerErrors(output.messages), request, result);
    HONE_ASSIGN_OR_RETURN(const ElfSummary object, SummariseElf(output.artefact));
    for (const std::string& symbol : object.undefined) {
      if (symbol == "launch") return Report({{"candidate.cu", 0, "`launch` is not defined as expected"}}, request, result);
    }
    result->rules = CheckObject(object);
    if (!result->rules.empty()) return Forbid(result);
    contents->files.emplace_back(level == CompileOptions::Level::kChecked ? kCheckedFile : kTimedFile, std::move(output.artefact));
    return absl::OkStatus();
  }

  static absl::Status Reject(VerdictStatus status, std::string message, BuildResult* result) {
    result->status = status;
    result->message = std::move(message);
    return absl::OkStatus();
  }

  static absl::Status Forbid(BuildResult* result) {
    const RuleHit& hit = result->rules.front();
    return Reject(VerdictStatus::kForbidden, absl::StrCat(hit.rule, ": ", hit.evidence), result);
  }

  static absl::Status Report(std::vector<CompilerError> errors, const BuildRequest& request, BuildResult* result) {
    if (errors.empty()) errors.push_back({"", 0, "the compiler failed without a message"});
    for (CompilerError& error : errors) {
      const bool of_launch = absl::StrContains(error.message, "launch");
      if (of_launch && (absl::StrContains(error.message, "conflicting declaration") ||
                        absl::StrContains(error.message, "ambiguating new declaration") ||
                        absl::StrContains(error.message, "not defined as expected"))) {
        error.message = absl::StrCat("wrong signature of `launch`; expected ", request.signature.Declaration());
      }
    }
    result->compiler_output = FormatCompilerErrors(errors, request.candidate.source);
    const CompilerError& first = errors.front();
    return Reject(VerdictStatus::kCompile,
                  absl::StrCat(first.file, first.line > 0 ? absl::StrCat(":", first.line) : "", first.file.empty() ? "" : ": ",
                               first.message),
                  result);
  }

  const CpuBuilderOptions options_;
  const std::unique_ptr<CpuCompiler> compiler_;
  ArtefactStore* const store_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<Builder>> CreateCpuBuilder(const CpuBuilderOptions& options, ArtefactStore* store) {
  const std::string headers = options.headers.empty() ? ResourcePath("cpu/include") : options.headers;
  HONE_ASSIGN_OR_RETURN(CpuToolchain toolchain, CpuToolchain::Find(options.compiler, headers));
  HONE_ASSIGN_OR_RETURN(auto compiler, CpuCompiler::Create(std::move(toolchain), options.sandbox));
  return std::unique_ptr<Builder>(new CpuBuilder(options, std::move(compiler), store));
}

}  // namespace hone::verifier
