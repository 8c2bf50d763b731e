#include "base/task_suite.h"

#include <algorithm>
#include <filesystem>
#include <map>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "base/file.h"
#include "base/status_macros.h"
#include "base/strings.h"
#include "base/task_file.h"

namespace hone {
namespace {

namespace fs = std::filesystem;

/// Tasks with where each came from.
class Collection {
 public:
  absl::Status Add(Task task, std::string where) {
    const auto [known, is_new] = origin_.emplace(task.id, where);
    if (!is_new) {
      return absl::InvalidArgumentError(
          absl::StrCat(where, ": the id \"", task.id, "\" is already that of ", known->second));
    }
    tasks_.push_back(std::move(task));
    return absl::OkStatus();
  }

  absl::Status AddFile(const std::string& path) {
    HONE_ASSIGN_OR_RETURN(const std::string text, ReadFile(path, kMaxTaskBytes));
    HONE_ASSIGN_OR_RETURN(Task task, ParseTaskFile(text, path));
    return Add(std::move(task), path);
  }

  absl::Status AddJsonLines(const std::string& path) {
    HONE_ASSIGN_OR_RETURN(const std::string text, ReadFile(path));
    int number = 0;
    for (const absl::string_view line : absl::StrSplit(text, '\n')) {
      const std::string where = absl::StrCat(path, ":", ++number);
      if (absl::StripAsciiWhitespace(line).empty()) continue;
      HONE_ASSIGN_OR_RETURN(Task task, TaskFromJson(line, where));
      HONE_RETURN_IF_ERROR(Add(std::move(task), where));
    }
    return absl::OkStatus();
  }

  std::vector<Task> Take() { return std::move(tasks_); }

 private:
  std::vector<Task> tasks_;
  std::map<std::string, std::string> origin_;  // id -> where
};

/// "2_b" before "10_a": digits compare by value.
bool NaturalLess(const std::string& a, const std::string& b) {
  size_t i = 0, j = 0;
  const auto number_end = [](const std::string& text, size_t at) {
    while (at < text.size() && absl::ascii_isdigit(text[at])) ++at;
    return at;
  };
  while (i < a.size() && j < b.size()) {
    const size_t a_end = number_end(a, i), b_end = number_end(b, j);
    if (a_end > i && b_end > j) {
      const std::string a_number = a.substr(i, a_end - i), b_number = b.substr(j, b_end - j);
      if (a_number.size() != b_number.size()) return a_number.size() < b_number.size();
      if (a_number != b_number) return a_number < b_number;
      i = a_end;
      j = b_end;
    } else {
      if (a[i] != b[j]) return a[i] < b[j];
      ++i;
      ++j;
    }
  }
  return a.size() - i < b.size() - j;
}

void FindModules(const fs::path& folder, std::vector<std::string>& found) {
  std::error_code error;
  for (fs::recursive_directory_iterator it(folder, error), end; it != end; it.increment(error)) {
    if (error) break;
    const std::string name = it->path().filename();
    if (absl::StartsWith(name, ".") || absl::StartsWith(name, "__")) {
      if (it->is_directory(error)) it.disable_recursion_pending();
      continue;
    }
    if (it->is_regular_file(error) && it->path().extension() == ".py") found.push_back(it->path());
  }
}

/// The folders to read: the level folders of a KernelBench checkout, else `path` itself.
std::vector<fs::path> TaskFolders(const fs::path& path) {
  for (const fs::path& root : {path / "KernelBench", path}) {
    std::vector<fs::path> levels;
    for (int level = 1; level <= 4; ++level) {
      fs::path folder = root / absl::StrCat("level", level);
      if (fs::is_directory(folder)) levels.push_back(std::move(folder));
    }
    if (!levels.empty()) return levels;
  }
  return {path};
}

absl::Status AddFolder(const std::string& path, Collection& collection) {
  for (const fs::path& folder : TaskFolders(path)) {
    std::vector<std::string> modules;
    FindModules(folder, modules);
    std::sort(modules.begin(), modules.end(), NaturalLess);
    for (const std::string& module : modules) HONE_RETURN_IF_ERROR(collection.AddFile(module));
  }
  return absl::OkStatus();
}

}  // namespace

std::string SuiteFolder() { return ResourcePath("tasks"); }

absl::StatusOr<std::vector<Task>> LoadTasks(const std::string& path) {
  std::error_code error;
  Collection collection;
  if (fs::is_directory(path, error)) {
    HONE_RETURN_IF_ERROR(AddFolder(path, collection));
  } else if (!fs::exists(path, error)) {
    return absl::NotFoundError(absl::StrCat(path, ": no such file or folder"));
  } else if (absl::EndsWith(path, ".jsonl")) {
    HONE_RETURN_IF_ERROR(collection.AddJsonLines(path));
  } else if (absl::EndsWith(path, ".py")) {
    HONE_RETURN_IF_ERROR(collection.AddFile(path));
  } else {
    return absl::InvalidArgumentError(absl::StrCat(path, ": tasks are .py files, .jsonl collections or folders"));
  }
  std::vector<Task> tasks = collection.Take();
  if (tasks.empty()) return absl::InvalidArgumentError(absl::StrCat(path, ": no task in it"));
  return tasks;
}

absl::StatusOr<Task> LoadTask(const std::string& name) {
  std::error_code error;
  if (fs::exists(name, error) || absl::EndsWith(name, ".py") || absl::EndsWith(name, ".jsonl")) {
    HONE_ASSIGN_OR_RETURN(std::vector<Task> tasks, LoadTasks(name));
    if (tasks.size() == 1) return std::move(tasks.front());
    return absl::InvalidArgumentError(absl::StrCat(name, ": holds ", tasks.size(), " tasks, not one"));
  }
  HONE_ASSIGN_OR_RETURN(const std::vector<Task> suite, LoadTasks(SuiteFolder()));
  std::vector<std::string> ids;
  for (const Task& task : suite) {
    if (task.id == name) return task;
    ids.push_back(task.id);
  }
  const std::string nearest = NearestWord(name, ids);
  const bool near = EditDistance(name, nearest) <= std::max<size_t>(2, name.size() / 3);
  return absl::NotFoundError(absl::StrCat("no task \"", name, "\" in the built-in suite; ",
                                          near ? absl::StrCat("the nearest is \"", nearest, "\"") : "hone tasks list names them"));
}

}  // namespace hone
