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

absl::StatusOr<Task> FindTask(const std::vector<Task>& tasks, const std::string& id, const std::string& where) {
  for (const Task& task : tasks) {
    if (task.id == id) return task;
  }
  return absl::InvalidArgumentError(absl::StrCat(where, ": no task '", id, "'; give the tasks by --tasks"));
}

/// The text of field `name`; empty for none, null and "None", which published collections write for a missing answer.
std::string TextOf(const Json& json, const char* name) {
  const auto found = json.find(name);
  if (found == json.end() || !found->is_string()) return "";
  const std::string text = found->get<std::string>();
  return absl::StripAsciiWhitespace(text) == "None" ? "" : text;
}

absl::StatusOr<EvalCandidate> FromJson(const Json& json, const std::vector<Task>& tasks, const std::string& where) {
  EvalCandidate candidate;
  const int level = json.value("level", 0);
  candidate.problem_id = json.value("problem_id", 0);
  std::string id = TextOf(json, "task");
  if (id.empty() && (level <= 0 || candidate.problem_id <= 0)) {
    return absl::InvalidArgumentError(absl::StrCat(where, ": needs `task`, or `level` and `problem_id`"));
  }
  if (id.empty()) id = KernelBenchId(level, candidate.problem_id);
  if (const std::string reference = TextOf(json, "reference"); !reference.empty()) {
    const Json task = {{"level", level}, {"problem_id", candidate.problem_id}, {"name", id}, {"code", reference}};
    HONE_ASSIGN_OR_RETURN(candidate.task, TaskFromJson(task.dump(), where));
  } else {
    HONE_ASSIGN_OR_RETURN(candidate.task, FindTask(tasks, id, where));
  }
  candidate.source = TextOf(json, "candidate");
  if (const std::string format = TextOf(json, "format"); !format.empty()) {
    const std::optional<Format> parsed = ParseFormat(format);
    if (!parsed)
      return absl::InvalidArgumentError(
          absl::StrCat(where, ": format '", format, "' is none of native, torch, triton"));
    candidate.format = *parsed;
  }
  for (const char* field : {"published_speedup", "claimed_speedup"}) {
    if (json.contains(field) && json[field].is_number()) candidate.claimed_speedup = json[field].get<double>();
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
    const Json json = Json::parse(line.begin(), line.end(), nullptr, /*allow_exceptions=*/false);
    if (!json.is_object()) return absl::InvalidArgumentError(absl::StrCat(where, ": not a JSON object"));
    try {
      HONE_ASSIGN_OR_RETURN(EvalCandidate candidate, FromJson(json, tasks, where));
      candidates.push_back(std::move(candidate));
    } catch (const Json::exception& error) {
      return absl::InvalidArgumentError(absl::StrCat(where, ": ", error.what()));
    }
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
    HONE_ASSIGN_OR_RETURN(candidate.task, FindTask(tasks, id, file));
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
