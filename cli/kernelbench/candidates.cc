#include "cli/kernelbench/candidates.h"

#include <algorithm>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <regex>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "base/file.h"
#include "base/json_fields.h"
#include "base/status_macros.h"
#include "base/task_file.h"

namespace hone::cli {
namespace {

using Json = nlohmann::json;

bool Wanted(const EvalCandidate& candidate, const CandidateFilter& filter) {
  const auto has = [](const auto& list, const auto& item) {
    return list.empty() || std::find(list.begin(), list.end(), item) != list.end();
  };
  return has(filter.levels, candidate.task.level) && has(filter.ids, candidate.task.id);
}

absl::StatusOr<Task> FindTask(const std::vector<Task>& tasks, const std::string& id) {
  for (const Task& task : tasks) {
    if (task.id == id) return task;
  }
  return absl::InvalidArgumentError(absl::StrCat("no task '", id, "'; give the tasks by --tasks"));
}

/// The error with the place before it, unless it names it already.
absl::Status Located(const std::string& where, const absl::Status& status) {
  if (absl::StartsWith(status.message(), where)) return status;
  return absl::Status(status.code(), absl::StrCat(where, ": ", status.message()));
}

/// The text of field `key`; empty for none, null and "None", which published collections write for a missing answer.
absl::StatusOr<std::string> TextOf(const Json& json, const char* key) {
  std::string text;
  HONE_RETURN_IF_ERROR(ReadOptionalField(json, key, text));
  return absl::StripAsciiWhitespace(text) == "None" ? "" : text;
}

absl::StatusOr<Task> TaskOf(const Json& json, int problem_id, const std::vector<Task>& tasks, const std::string& where) {
  int level = 0;
  HONE_RETURN_IF_ERROR(ReadOptionalField(json, "level", level));
  HONE_ASSIGN_OR_RETURN(std::string id, TextOf(json, "task"));
  if (id.empty() && (level <= 0 || problem_id <= 0)) return absl::InvalidArgumentError("needs `task`, or `level` and `problem_id`");
  if (id.empty()) id = KernelBenchId(level, problem_id);
  HONE_ASSIGN_OR_RETURN(const std::string reference, TextOf(json, "reference"));
  if (reference.empty()) return FindTask(tasks, id);
  const Json task = {{"level", level}, {"problem_id", problem_id}, {"name", id}, {"code", reference}};
  return TaskFromJson(task.dump(), where);
}

absl::StatusOr<EvalCandidate> ParseCandidate(absl::string_view line, const std::vector<Task>& tasks, const std::string& where) {
  HONE_ASSIGN_OR_RETURN(const Json json, ParseJsonObject(line));
  EvalCandidate candidate;
  HONE_RETURN_IF_ERROR(ReadOptionalField(json, "problem_id", candidate.problem_id));
  HONE_ASSIGN_OR_RETURN(candidate.task, TaskOf(json, candidate.problem_id, tasks, where));
  HONE_ASSIGN_OR_RETURN(candidate.source, TextOf(json, "candidate"));
  HONE_ASSIGN_OR_RETURN(const std::string format, TextOf(json, "format"));
  if (!format.empty()) {
    const std::optional<Format> parsed = ParseFormat(format);
    if (!parsed) return absl::InvalidArgumentError(absl::StrCat("format '", format, "' is none of native, torch, triton"));
    candidate.format = *parsed;
  }
  for (const char* key : {"published_speedup", "claimed_speedup"}) {
    if (json.contains(key) && json[key].is_number()) candidate.claimed_speedup = json[key].get<double>();
  }
  candidate.id = candidate.task.id;
  if (json.contains("sample")) absl::StrAppend(&candidate.id, "#", json["sample"].dump());
  return candidate;
}

absl::StatusOr<std::vector<EvalCandidate>> FromLines(const std::string& path, const std::vector<Task>& tasks) {
  HONE_ASSIGN_OR_RETURN(const std::string text, ReadFile(path));
  std::vector<EvalCandidate> candidates;
  int number = 0;
  for (absl::string_view line : absl::StrSplit(text, '\n')) {
    ++number;
    if (absl::StripAsciiWhitespace(line).empty()) continue;
    const std::string where = absl::StrCat(path, ":", number);
    absl::StatusOr<EvalCandidate> candidate = ParseCandidate(line, tasks, where);
    if (!candidate.ok()) return Located(where, candidate.status());
    candidates.push_back(*std::move(candidate));
  }
  return candidates;
}

/// The task's id in a file's name, and the number of the sample.
std::pair<std::string, std::string> NamesOf(const std::string& stem) {
  static const std::regex* const kGenerated = new std::regex("level_(\\d+)_problem_(\\d+)_sample_(\\d+)(_kernel)?");
  static const std::regex* const kShort = new std::regex("(\\d+)_(\\d+)");
  std::smatch match;
  if (std::regex_match(stem, match, *kGenerated)) {
    return {KernelBenchId(std::stoi(match[1]), std::stoi(match[2])), match[3]};
  }
  if (std::regex_match(stem, match, *kShort)) return {KernelBenchId(std::stoi(match[1]), std::stoi(match[2])), ""};
  return {stem, ""};
}

absl::StatusOr<std::vector<EvalCandidate>> FromFolder(const std::string& path, const std::vector<Task>& tasks) {
  std::vector<std::string> files;
  for (const auto& entry : std::filesystem::directory_iterator(path)) {
    const std::string extension = entry.path().extension();
    if (extension == ".py" || extension == ".cu") files.push_back(entry.path());
  }
  std::sort(files.begin(), files.end());
  std::vector<EvalCandidate> candidates;
  for (const std::string& file : files) {
    const auto [id, sample] = NamesOf(std::filesystem::path(file).stem());
    EvalCandidate candidate;
    absl::StatusOr<Task> task = FindTask(tasks, id);
    if (!task.ok()) return Located(file, task.status());
    candidate.task = *std::move(task);
    HONE_ASSIGN_OR_RETURN(candidate.source, ReadFile(file));
    candidate.format = absl::EndsWith(file, ".cu") ? Format::kNative : Format::kTorch;
    candidate.id = sample.empty() ? id : absl::StrCat(id, "#", sample);
    candidates.push_back(std::move(candidate));
  }
  return candidates;
}

}  // namespace

absl::StatusOr<std::vector<EvalCandidate>> LoadCandidates(const std::string& path, const std::vector<Task>& tasks,
                                                          const CandidateFilter& filter) {
  std::error_code error;
  const bool folder = std::filesystem::is_directory(path, error);
  absl::StatusOr<std::vector<EvalCandidate>> all = folder ? FromFolder(path, tasks) : FromLines(path, tasks);
  HONE_RETURN_IF_ERROR(all.status());
  std::vector<EvalCandidate> wanted;
  std::map<std::string, int> seen;
  for (EvalCandidate& candidate : *all) {
    if (!Wanted(candidate, filter)) continue;
    if (const int before = seen[candidate.id]++; before > 0) absl::StrAppend(&candidate.id, "#", before);
    wanted.push_back(std::move(candidate));
  }
  if (wanted.empty()) return absl::InvalidArgumentError(absl::StrCat(path, ": no candidate is left to evaluate"));
  return wanted;
}

}  // namespace hone::cli
