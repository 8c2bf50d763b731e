// `hone tasks decontaminate`: no task to be evaluated on, and no near copy of one, among those trained on.

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <memory>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_split.h"
#include "base/file.h"
#include "base/json_fields.h"
#include "base/status_macros.h"
#include "base/task_file.h"
#include "base/task_suite.h"
#include "cli/command.h"
#include "cli/report_error.h"
#include "rollout/sampler/near_copies.h"

namespace hone::cli {
namespace {

using rollout::CopyKind;
using rollout::NearestTask;
using rollout::TaskPrint;

struct DecontaminateOptions {
  std::vector<std::string> training, evaluation;
  double threshold = 0.8;
  std::string clean;
  int64_t show = 10;
};

constexpr char kSuite[] = "suite";

/// The reference in a prompt of rollout/prompt/layouts.h: its first block of Python.
absl::StatusOr<std::string> ReferenceIn(const std::string& prompt, const std::string& where) {
  constexpr char kOpen[] = "```python\n";
  const size_t open = prompt.find(kOpen);
  const size_t close = prompt.find("\n```", open == std::string::npos ? 0 : open);
  if (open == std::string::npos || close == std::string::npos) {
    return absl::InvalidArgumentError(absl::StrCat(where, ": the prompt shows no reference (```python ... ```)"));
  }
  return prompt.substr(open + sizeof(kOpen) - 1, close - open - sizeof(kOpen) + 1);
}

/// The last user's text of a line, or "prompt"; empty: it has neither.
std::string PromptOf(const nlohmann::json& line) {
  std::string prompt;
  if (!line.is_object()) return prompt;
  if (line.contains("prompt") && line["prompt"].is_string()) prompt = line["prompt"].get<std::string>();
  if (!line.contains("messages") || !line["messages"].is_array()) return prompt;
  for (const nlohmann::json& message : line["messages"]) {
    if (message.is_object() && TextOr(message, "role") == "user") prompt = TextOr(message, "content");
  }
  return prompt;
}

/// Tasks out of a data set for `hone sft`: each line's prompt. Nothing where the file is none.
absl::StatusOr<std::optional<std::vector<Task>>> FromDataset(const std::string& path) {
  if (!absl::EndsWith(path, ".jsonl")) return std::nullopt;
  HONE_ASSIGN_OR_RETURN(const std::string text, ReadFile(path));
  std::vector<Task> tasks;
  std::set<std::string> seen;
  int64_t line_number = 0;
  for (const std::string& line : std::vector<std::string>(absl::StrSplit(text, '\n'))) {
    ++line_number;
    if (line.empty()) continue;
    const nlohmann::json json = nlohmann::json::parse(line, nullptr, /*allow_exceptions=*/false);
    const std::string prompt = PromptOf(json);
    if (prompt.empty()) {
      if (tasks.empty()) return std::nullopt;  // a collection of tasks
      return absl::InvalidArgumentError(absl::StrCat(path, ":", line_number, ": neither \"messages\" nor \"prompt\""));
    }
    const std::string where = absl::StrCat(path, ":", line_number);
    Task task;
    HONE_ASSIGN_OR_RETURN(task.reference, ReferenceIn(prompt, where));
    task.id = TextOr(json, "task_id", where);
    if (seen.insert(task.reference).second) tasks.push_back(std::move(task));
  }
  return tasks;
}

absl::StatusOr<std::vector<Task>> LoadSide(const std::vector<std::string>& paths, Split split) {
  std::vector<Task> all;
  for (const std::string& path : paths) {
    HONE_ASSIGN_OR_RETURN(std::optional<std::vector<Task>> tasks, FromDataset(path));
    if (!tasks) {
      HONE_ASSIGN_OR_RETURN(tasks, LoadTasks(path == kSuite ? SuiteFolder() : path));
    }
    for (Task& task : *tasks) {
      if (path != kSuite || task.split == split) all.push_back(std::move(task));
    }
  }
  return all;
}

struct Found {
  const Task* task;
  NearestTask nearest;
};

void Print(const std::vector<Found>& found, const std::vector<TaskPrint>& evaluation, int64_t show) {
  absl::PrintF("%-11s %10s  %-36s %s\n", "kind", "similarity", "task to train on", "task to be evaluated on");
  for (size_t i = 0; i < found.size() && (static_cast<int64_t>(i) < show || found[i].nearest.kind != CopyKind::kNone); ++i) {
    const Found& f = found[i];
    absl::PrintF("%-11s %10.3f  %-36s %s\n", Name(f.nearest.kind), f.nearest.similarity, f.task->id,
                 evaluation[f.nearest.index].id);
  }
}

/// True when nothing was found.
absl::StatusOr<bool> Decontaminate(const DecontaminateOptions& options) {
  HONE_RETURN_IF_ERROR(CheckOutput("--clean", options.clean));
  HONE_ASSIGN_OR_RETURN(const std::vector<Task> training, LoadSide(options.training, Split::kTrain));
  HONE_ASSIGN_OR_RETURN(const std::vector<Task> evaluation, LoadSide(options.evaluation, Split::kHeldOut));
  if (training.empty()) return absl::InvalidArgumentError("--training: no task in it");
  if (evaluation.empty()) return absl::InvalidArgumentError("--evaluation: no task in it");
  std::vector<TaskPrint> prints;
  for (const Task& task : evaluation) prints.push_back(rollout::PrintOf(task.id, task.reference));
  std::vector<Found> found;
  std::string clean;
  int64_t copies = 0;
  for (const Task& task : training) {
    found.push_back({&task, rollout::Nearest(rollout::PrintOf(task.id, task.reference), prints, options.threshold)});
    const bool copy = found.back().nearest.kind != CopyKind::kNone;
    copies += copy ? 1 : 0;
    if (!copy) absl::StrAppend(&clean, TaskToJson(task), "\n");
  }
  std::stable_sort(found.begin(), found.end(), [](const Found& a, const Found& b) {
    if (a.nearest.kind != b.nearest.kind) return a.nearest.kind > b.nearest.kind;
    return a.nearest.similarity > b.nearest.similarity;
  });
  absl::PrintF("%d tasks to train on, %d to be evaluated on; near copies (similarity of at least %g): %d\n", training.size(),
               evaluation.size(), options.threshold, copies);
  Print(found, prints, options.show);
  if (options.clean.empty()) return copies == 0;
  HONE_RETURN_IF_ERROR(WriteFileAtomically(options.clean, clean));
  absl::PrintF("%s: the %d others\n", options.clean, training.size() - copies);
  return true;
}

}  // namespace

void AddDecontaminate(CLI::App& tasks, Action& action) {
  auto options = std::make_shared<DecontaminateOptions>();
  CLI::App* command = tasks.add_subcommand("decontaminate", "Finds near copies of evaluation tasks among training tasks; exit code 3 if any");
  command->add_option("--training", options->training,
                      "Collections, or data sets of hone sft with prompts; suite: its train split")->required();
  command->add_option("--evaluation", options->evaluation, "Collections; suite: its held-out split")->required();
  command->add_option("--threshold", options->threshold, "Similarity from which a task is a near copy")->check(CLI::Range(0.0, 1.0));
  command->add_option("--clean", options->clean, "Write the tasks that are none as a collection (.jsonl); exit code 0 then");
  command->add_option("--show", options->show, "Nearest pairs that are listed besides all copies")->check(CLI::Range(int64_t{0}, int64_t{1000000}));
  command->footer("Example:\n  hone tasks decontaminate --training suite --evaluation suite --evaluation kernelbench.jsonl --clean train.jsonl");
  command->callback([options, &action] {
    action = [options]() -> int {
      const absl::StatusOr<bool> sound = Decontaminate(*options);
      if (!sound.ok()) return Report(sound.status());
      return *sound ? kDone : kAskedForFailed;
    };
  });
}

}  // namespace hone::cli
