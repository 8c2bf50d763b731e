#include "cli/kernelbench/results.h"

#include <cmath>
#include <nlohmann/json.hpp>
#include <unordered_map>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "base/file.h"
#include "base/journal.h"
#include "base/json_fields.h"
#include "base/status_macros.h"

namespace hone::cli {
namespace {

using Json = nlohmann::json;

bool Compiled(VerdictStatus status) {
  switch (status) {
    case VerdictStatus::kParse:
    case VerdictStatus::kForbidden:
    case VerdictStatus::kCompile:
    case VerdictStatus::kCompileTimeout:
    case VerdictStatus::kInfra:
      return false;
    default:
      return true;
  }
}

absl::StatusOr<EvalResult> ParseResult(absl::string_view line) {
  HONE_ASSIGN_OR_RETURN(const Json json, ParseJsonObject(line));
  EvalResult result;
  HONE_RETURN_IF_ERROR(ReadField(json, "id", result.id));
  HONE_RETURN_IF_ERROR(ReadField(json, "key", result.key));
  HONE_RETURN_IF_ERROR(ReadField(json, "level", result.level));
  HONE_RETURN_IF_ERROR(ReadField(json, "problem_id", result.problem_id));
  HONE_RETURN_IF_ERROR(ReadField(json, "given", result.given));
  if (double claimed = 0; json.contains("claimed_speedup")) {
    HONE_RETURN_IF_ERROR(ReadField(json, "claimed_speedup", claimed));
    result.claimed_speedup = claimed;
  }
  if (!json.contains("verdict")) return absl::InvalidArgumentError("\"verdict\" is missing");
  HONE_ASSIGN_OR_RETURN(result.verdict, VerdictFromJson(json["verdict"].dump()));
  return result;
}

}  // namespace

std::string EvalResultToJson(const EvalResult& result) {
  Json json = {{"id", result.id},
               {"key", result.key},
               {"level", result.level},
               {"problem_id", result.problem_id},
               {"given", result.given}};
  if (result.claimed_speedup) json["claimed_speedup"] = *result.claimed_speedup;
  std::string text = json.dump();
  text.pop_back();
  return absl::StrCat(text, ",\"verdict\":", VerdictToJson(result.verdict), "}");
}

absl::StatusOr<EvalResult> EvalResultFromJson(absl::string_view line, const std::string& where) {
  absl::StatusOr<EvalResult> result = ParseResult(line);
  if (!result.ok()) return absl::InvalidArgumentError(absl::StrCat(where, ": ", result.status().message()));
  return result;
}

absl::StatusOr<std::vector<EvalResult>> ReadEvalResults(const std::string& path) {
  std::vector<EvalResult> results;
  if (!FileExists(path)) return results;
  HONE_ASSIGN_OR_RETURN(const std::string text, ReadFile(path));
  std::unordered_map<std::string, size_t> places;
  int number = 0;
  const std::vector<absl::string_view> lines = absl::StrSplit(text, '\n');
  for (const absl::string_view line : lines) {
    ++number;
    if (line.empty()) continue;
    absl::StatusOr<EvalResult> result = EvalResultFromJson(line, absl::StrCat(path, ":", number));
    const bool last = static_cast<size_t>(number) == lines.size();  // a whole line has a newline behind it
    if (!result.ok() && last) break;
    HONE_RETURN_IF_ERROR(result.status());
    const auto [place, fresh] = places.emplace(result->id, results.size());
    if (fresh) {
      results.push_back(*std::move(result));
    } else {
      results[place->second] = *std::move(result);
    }
  }
  return results;
}

EvalSummary Summarise(const std::vector<EvalResult>& results) {
  EvalSummary summary;
  double log_sum = 0, log_sum_fast = 0;
  int timed = 0, fast[3] = {0, 0, 0};
  for (const EvalResult& result : results) {
    if (!result.given) {
      ++summary.missing;
      continue;
    }
    ++summary.n;
    ++summary.statuses[std::string(Name(result.verdict.status))];
    summary.compiled += Compiled(result.verdict.status);
    summary.correct += result.correct();
    const double speedup = result.speedup();
    for (int p = 0; p < 3; ++p) fast[p] += speedup > p;
    if (speedup > 0) {
      log_sum += std::log(speedup);
      ++timed;
    }
    if (speedup > 1) log_sum_fast += std::log(speedup);
  }
  const double n = std::max(1, summary.n);
  summary.fast_0 = fast[0] / n;
  summary.fast_1 = fast[1] / n;
  summary.fast_2 = fast[2] / n;
  if (timed > 0) summary.geometric_mean = std::exp(log_sum / timed);
  if (fast[1] > 0) summary.geometric_mean_fast = std::exp(log_sum_fast / fast[1]);
  return summary;
}

}  // namespace hone::cli
