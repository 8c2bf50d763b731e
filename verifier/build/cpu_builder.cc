#include "verifier/build/cpu_builder.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "base/file.h"
#include "base/hash.h"
#include "base/status_macros.h"
#include "verifier/build/compiler_output.h"
#include "verifier/build/cpu_compiler.h"
#include "verifier/build/cuda_source.h"
#include "verifier/build/elf_symbols.h"
#include "verifier/build/native_build.h"
#include "verifier/build/rewriter.h"
#include "verifier/build/source_dialect.h"
#include "verifier/rules/object_rules.h"
#include "verifier/rules/source_rules.h"

namespace hone::verifier {
namespace {

class CpuBuilder final : public Builder {
 public:
  CpuBuilder(CpuBuilderOptions options, std::unique_ptr<CpuCompiler> compiler, ArtefactStore* store)
      : options_(std::move(options)), compiler_(std::move(compiler)), store_(store) {}

  absl::StatusOr<BuildResult> Build(const BuildRequest& request) override {
    const std::string key =
        ContentKey({std::string(Name(options_.backend)), request.candidate.source, request.signature.Declaration(), compiler_->toolchain().identity,
                    options_.rescue_flags ? "" : "bare", RulePolicy(request.legality).Key()});
    HONE_ASSIGN_OR_RETURN(const Artefact artefact, store_->FindOrMake(key, [&] { return Make(request); }));
    return ResultOf(artefact);
  }

  std::string Toolchain(Backend backend) const override {
    return backend == options_.backend ? ToolchainName() : "";
  }

 private:
  std::string ToolchainName() const {
    return absl::StrCat(options_.name, options_.name.empty() ? "" : " ", compiler_->toolchain().version);
  }

  absl::StatusOr<ArtefactContents> Make(const BuildRequest& request) {
    return Recorded(ToolchainName(), [&](BuildResult* result, ArtefactContents* contents) {
      return Compile(request, result, contents);
    });
  }

  absl::Status Compile(const BuildRequest& request, BuildResult* result, ArtefactContents* contents) {
    const std::string& source = request.candidate.source;
    if (std::string why = UnusableText(source); !why.empty()) {
      Reject(VerdictStatus::kParse, std::move(why), result);
      return absl::OkStatus();
    }
    const RulePolicy policy(request.legality);
    result->rules = dialect_.CheckRules(source, Assembly::kNowhere, policy);
    if (FirstReject(result->rules) != nullptr) {
      Forbid(result);
      return absl::OkStatus();
    }
    RewriteOptions options;
    options.relaxed_constexpr = options_.rescue_flags;
    const Rewritten timed = RewriteCuda(source, options);
    if (!timed.defines_launch) {
      RejectWithoutLaunch(request, dialect_, result);
      return absl::OkStatus();
    }
    if (!timed.errors.empty()) {
      std::vector<CompilerError> errors;
      for (const SourceError& error : timed.errors) errors.push_back({dialect_.candidate_file(), error.line, error.message});
      ReportErrors(std::move(errors), request, dialect_, result);
      return absl::OkStatus();
    }
    using Level = CompileOptions::Level;
    const Level level = timed.has_local_arrays ? Level::kFull : Level::kQuick;
    HONE_RETURN_IF_ERROR(CompileOne(timed.source, level, request, result, contents));
    if (result->status != VerdictStatus::kOk || !(timed.has_arrays || timed.has_updates)) return absl::OkStatus();
    options.checked = true;
    HONE_RETURN_IF_ERROR(CompileOne(RewriteCuda(source, options).source, Level::kChecked, request, result, contents));
    result->checked_artefact = kCheckedFile;
    return absl::OkStatus();
  }

  absl::Status CompileOne(const std::string& rewritten, CompileOptions::Level level, const BuildRequest& request,
                          BuildResult* result, ArtefactContents* contents) {
    const std::string unit = dialect_.Unit(request.signature, rewritten, "");
    HONE_ASSIGN_OR_RETURN(CompileOutput output, compiler_->Compile(unit, {level, options_.rescue_flags}, request.timeout));
    if (output.timed_out) {
      Reject(VerdictStatus::kCompileTimeout,
             absl::StrCat("the compiler did not end within ", absl::FormatDuration(request.timeout)), result);
      return absl::OkStatus();
    }
    if (!output.ok) {
      ReportErrors(ParseCompilerErrors(output.messages), request, dialect_, result);
      return absl::OkStatus();
    }
    HONE_ASSIGN_OR_RETURN(const ElfSummary object, SummariseElf(output.artefact));
    for (const std::string& symbol : object.undefined) {
      if (symbol != "launch") continue;
      ReportErrors({{dialect_.candidate_file(), 0, "`launch` is not defined as expected"}}, request, dialect_, result);
      return absl::OkStatus();
    }
    const RulePolicy policy(request.legality);
    for (const auto& hits : {CheckAssembly(output.assembly, compiler_->toolchain().headers + "/", policy),
                             CheckObject(object, policy)}) {
      result->rules.insert(result->rules.end(), hits.begin(), hits.end());
    }
    if (FirstReject(result->rules) != nullptr) {
      Forbid(result);
      return absl::OkStatus();
    }
    contents->files.emplace_back(level == CompileOptions::Level::kChecked ? kCheckedFile : kTimedFile, std::move(output.artefact));
    return absl::OkStatus();
  }

  const CpuBuilderOptions options_;
  const SourceDialect dialect_{options_.backend};
  const std::unique_ptr<CpuCompiler> compiler_;
  ArtefactStore* const store_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<Builder>> CreateCpuBuilder(const CpuBuilderOptions& options, ArtefactStore* store) {
  const std::string headers = options.headers.empty() ? ResourcePath("cpu/include") : options.headers;
  HONE_ASSIGN_OR_RETURN(CpuToolchain toolchain, CpuToolchain::Find(options.compiler, headers, options.extra_headers));
  HONE_ASSIGN_OR_RETURN(auto compiler, CpuCompiler::Create(std::move(toolchain), options.sandbox));
  return std::unique_ptr<Builder>(new CpuBuilder(options, std::move(compiler), store));
}

}  // namespace hone::verifier
