#include "attacks/corpus.h"

#include <algorithm>
#include <filesystem>
#include <map>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "base/file.h"
#include "base/status_macros.h"
#include "base/task_suite.h"
#include "verifier/rules/rule.h"

namespace hone::attacks {
namespace {

using Keys = std::map<std::string, std::string>;

/// The leading comment's keys; a line that is indented goes on with the one before.
Keys ReadKeys(absl::string_view text, absl::string_view comment) {
  Keys keys;
  std::string last;
  for (absl::string_view line : absl::StrSplit(text, '\n')) {
    line = absl::StripTrailingAsciiWhitespace(line);
    if (!absl::ConsumePrefix(&line, comment)) break;
    if (absl::StartsWith(line, "   ") && !last.empty()) {
      absl::StrAppend(&keys[last], " ", absl::StripAsciiWhitespace(line));
      continue;
    }
    const std::pair<absl::string_view, absl::string_view> parts = absl::StrSplit(line, absl::MaxSplits(':', 1));
    last = std::string(absl::StripAsciiWhitespace(parts.first));
    keys[last] = std::string(absl::StripAsciiWhitespace(parts.second));
  }
  return keys;
}

std::vector<std::string> Words(const std::string& text) { return absl::StrSplit(text, ' ', absl::SkipEmpty()); }

absl::StatusOr<Program> LoadProgram(const std::string& folder, const std::string& name) {
  HONE_ASSIGN_OR_RETURN(const std::string text, ReadFile(folder + "/" + name));
  Keys keys = ReadKeys(text, absl::EndsWith(name, ".py") ? "#" : "//");
  const auto take = [&](const std::string& key) {
    const auto found = keys.find(key);
    if (found == keys.end()) return std::string();
    std::string value = std::move(found->second);
    keys.erase(found);
    return value;
  };
  Program program;
  program.name = name;
  program.attack = take("attack");
  program.why = take("why");
  program.harmless = take("harmless");
  program.gpu = take("gpu");
  program.rule = take("rule");
  program.lane = take("lane");
  program.flags = Words(take("flags"));
  if (std::string task = take("task"); !task.empty()) program.task = std::move(task);
  for (const char* key : {"expect", "behind"}) {
    std::vector<VerdictStatus>& statuses = key == std::string("expect") ? program.expect : program.behind;
    for (const std::string& status : Words(take(key))) {
      const std::optional<VerdictStatus> parsed = ParseVerdictStatus(status);
      if (!parsed) return absl::InvalidArgumentError(absl::StrCat(name, ": ", key, ": no status ", status));
      statuses.push_back(*parsed);
    }
  }
  for (const std::string& preamble : Words(take("with"))) {
    HONE_ASSIGN_OR_RETURN(const std::string part, ReadFile(absl::StrCat(folder, "/preambles/", preamble, ".inc")));
    absl::StrAppend(&program.source, part);
  }
  absl::StrAppend(&program.source, text);
  if (program.attack.empty() || program.why.empty() || program.expect.empty()) {
    return absl::InvalidArgumentError(absl::StrCat(name, ": needs attack, expect and why"));
  }
  if (!keys.empty()) return absl::InvalidArgumentError(absl::StrCat(name, ": unknown key ", keys.begin()->first));
  return program;
}

}  // namespace

Format Program::format() const {
  if (!absl::EndsWith(name, ".py")) return Format::kNative;
  return absl::StrContains(source, "@triton.jit") ? Format::kTriton : Format::kTorch;
}

absl::StatusOr<Task> TaskOf(const Program& program, const std::string& folder, bool open) {
  HONE_ASSIGN_OR_RETURN(std::vector<Task> tasks, LoadTasks(absl::StrCat(folder, "/tasks/", program.task, ".py")));
  Task task = std::move(tasks.front());
  if (!open) return task;
  task.legality.allow_library_kernels = true;
  for (const verifier::Rule& rule : verifier::AllRules()) {
    const bool of_the_text = rule.stage == verifier::RuleStage::kPython && rule.can_be_disabled;
    if (of_the_text) task.legality.disabled_rules.push_back(rule.name);
  }
  return task;
}

absl::StatusOr<std::vector<Program>> LoadCorpus(const std::string& folder, const std::string& extension) {
  std::vector<std::string> names;
  std::error_code error;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(folder, error)) {
    const std::string name = std::filesystem::relative(entry.path(), folder).string();
    const bool program = entry.is_regular_file() && absl::EndsWith(name, extension) && absl::StrContains(name, "/");
    if (program && !absl::StartsWith(name, "tasks/")) names.push_back(name);
  }
  if (error) return ErrnoStatus(error.value(), absl::StrCat("listing ", folder));
  std::sort(names.begin(), names.end());
  std::vector<Program> programs;
  for (const std::string& name : names) {
    HONE_ASSIGN_OR_RETURN(Program program, LoadProgram(folder, name));
    programs.push_back(std::move(program));
  }
  return programs;
}

}  // namespace hone::attacks
