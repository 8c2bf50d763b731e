#include "verifier/build/native_build.h"

#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/strings.h"
#include "nlohmann/json.hpp"
#include "verifier/rules/rule.h"

namespace hone::verifier {
namespace {

constexpr size_t kMaxSourceBytes = 1 << 20;

}  // namespace

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

void Reject(VerdictStatus status, std::string message, BuildResult* result) {
  result->status = status;
  result->message = std::move(message);
}

void Forbid(BuildResult* result) {
  const RuleHit& hit = *FirstReject(result->rules);
  Reject(VerdictStatus::kForbidden, absl::StrCat(hit.rule, ": ", hit.evidence), result);
}

void ReportErrors(std::vector<CompilerError> errors, const BuildRequest& request, const SourceDialect& dialect,
                  BuildResult* result) {
  if (errors.empty()) errors.push_back({"", 0, "the compiler failed without a message"});
  for (CompilerError& error : errors) {
    if (!absl::StrContains(error.message, "launch")) continue;
    for (const char* words : {"conflicting declaration", "ambiguating new declaration", "not defined as expected",
                              "more than one instance of overloaded function", "has already been declared"}) {
      if (!absl::StrContains(error.message, words)) continue;
      error.message = absl::StrCat("wrong signature of `launch`; expected ", dialect.Declaration(request.signature));
      break;
    }
  }
  result->compiler_output = FormatCompilerErrors(errors, request.candidate.source);
  const CompilerError& first = errors.front();
  Reject(VerdictStatus::kCompile,
         absl::StrCat(first.file, first.line > 0 ? absl::StrCat(":", first.line) : "", first.file.empty() ? "" : ": ",
                      first.message),
         result);
}

void RejectWithoutLaunch(const BuildRequest& request, const SourceDialect& dialect, BuildResult* result) {
  Reject(VerdictStatus::kParse,
         absl::StrCat("no definition of `launch`; expected ", dialect.Declaration(request.signature)), result);
}

}  // namespace hone::verifier
