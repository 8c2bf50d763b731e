// `hone tasks`: lists, shows, imports and audits task collections.

#include <CLI/CLI.hpp>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "base/file.h"
#include "base/progress.h"
#include "base/status_macros.h"
#include "base/task_file.h"
#include "base/task_suite.h"
#include "cli/command.h"
#include "cli/report_error.h"
#include "cli/verifier_access.h"
#include "verifier/audit/audit.h"

namespace hone::cli {
namespace {

using verifier::AuditOptions;
using verifier::TaskAudit;

// ---- list ----

constexpr char kSuite[] = "suite";  // stands for the built-in one where a path is asked for

struct ListOptions {
  std::string path = kSuite;
  std::string split;
  std::string family;
  bool json = false;
};

absl::StatusOr<std::vector<Task>> Load(const std::string& path) {
  return LoadTasks(path == kSuite ? SuiteFolder() : path);
}

bool Wanted(const Task& task, const ListOptions& options) {
  return (options.split.empty() || Name(task.split) == options.split) &&
         (options.family.empty() || task.family == options.family);
}

absl::Status List(const ListOptions& options) {
  HONE_ASSIGN_OR_RETURN(const std::vector<Task> tasks, Load(options.path));
  if (!options.json) absl::PrintF("%-24s %-18s %5s %-8s %-8s %s\n", "id", "family", "level", "split", "dtype", "description");
  int shown = 0;
  for (const Task& task : tasks) {
    if (!Wanted(task, options)) continue;
    ++shown;
    if (options.json) {
      absl::PrintF("%s\n", TaskToJson(task));
    } else {
      absl::PrintF("%-24s %-18s %5d %-8s %-8s %s%s\n", task.id, task.family, task.level, Name(task.split),
                   Name(task.dtype), task.description, task.weak ? " (weak)" : "");
    }
  }
  if (!options.json) absl::PrintF("%d tasks\n", shown);
  return absl::OkStatus();
}

// ---- show ----

std::string SizesLine(absl::string_view name, const Sizes& sizes) {
  return sizes.empty() ? "" : absl::StrFormat("%-12s %s\n", name, FormatSizes(sizes));
}

std::string Profiles(const Task& task) {
  return absl::StrJoin(task.profiles, " ", [](std::string* out, ValueProfile p) { absl::StrAppend(out, Name(p)); });
}

/// As a verifier of one's own derives it.
absl::StatusOr<Signature> SignatureOf(const Task& task) {
  HONE_ASSIGN_OR_RETURN(const VerifierAccess verifier, OpenVerifier({}, {"lanes=1"}));
  return verifier.client->DescribeTask(task);
}

struct ShowOptions {
  std::string task;
  bool json = false;
  bool signature = false;
};

absl::Status Show(const ShowOptions& options) {
  HONE_ASSIGN_OR_RETURN(const Task task, LoadTask(options.task));
  if (options.json) {
    absl::PrintF("%s\n", TaskToJson(task));
    return absl::OkStatus();
  }
  if (options.signature) {
    HONE_ASSIGN_OR_RETURN(const Signature signature, SignatureOf(task));
    absl::PrintF("%s\n", signature.Declaration());
    return absl::OkStatus();
  }
  absl::PrintF("%s (level %d, %s, %s, %s)\n", task.id, task.level, task.family, Name(task.split), Name(task.dtype));
  if (!task.description.empty()) absl::PrintF("%s\n", task.description);
  absl::PrintF("%-12s |error| <= %g + %g |reference|\n", "tolerance", task.tolerance.atol, task.tolerance.rtol);
  absl::PrintF("%-12s %s\n", "values", Profiles(task));
  for (const Sizes& variant : task.variants) absl::PrintF("%s", SizesLine("variant", variant));
  absl::PrintF("%s%s\n%s", SizesLine("timed", task.timing), SizesLine("timed on GPU", task.timing_gpu), task.reference);
  return absl::OkStatus();
}

// ---- import ----

absl::Status Import(const std::string& path, const std::string& out) {
  HONE_ASSIGN_OR_RETURN(const std::vector<Task> tasks, LoadTasks(path));
  if (out.empty()) {
    absl::PrintF("%d tasks load from %s; --out FILE.jsonl writes them as one collection\n", tasks.size(), path);
    return absl::OkStatus();
  }
  if (!absl::EndsWith(out, ".jsonl")) {
    return absl::InvalidArgumentError(absl::StrCat("--out ", out, ": a collection's name ends with .jsonl"));
  }
  HONE_RETURN_IF_ERROR(CheckOutput("--out", out));
  std::string text;
  for (const Task& task : tasks) absl::StrAppend(&text, TaskToJson(task), "\n");
  HONE_RETURN_IF_ERROR(WriteFileAtomically(out, text));
  absl::PrintF("wrote %d tasks to %s\n", tasks.size(), out);
  return absl::OkStatus();
}

// ---- audit ----

struct AuditArguments {
  std::vector<std::string> paths = {kSuite};
  std::string only;                // one task id
  std::string markdown;
  std::string out;
  bool json = false;
  AuditOptions audit;
  double task_seconds = 90;
};

std::string DefaultPython() {
  if (const char* python = std::getenv("HONE_PYTHON"); python != nullptr && *python != '\0') return python;
  return HONE_BUILD_PYTHON;
}

absl::StatusOr<std::vector<TaskAudit>> AuditOne(const std::string& path, const AuditArguments& arguments,
                                                std::vector<Task>& tasks) {
  HONE_ASSIGN_OR_RETURN(tasks, Load(path));
  if (!arguments.only.empty()) {
    std::erase_if(tasks, [&](const Task& task) { return task.id != arguments.only; });
    if (tasks.empty()) return absl::NotFoundError(absl::StrCat("no task \"", arguments.only, "\""));
  }
  AuditOptions options = arguments.audit;
  options.per_task = absl::Seconds(arguments.task_seconds);
  if (options.python.empty()) options.python = DefaultPython();
  Progress progress("audit", static_cast<int64_t>(tasks.size()));
  int64_t done = 0;
  return verifier::AuditTasks(tasks, options, [&](const TaskAudit& audit) { progress.Update(++done, audit.id); });
}

void Print(const std::vector<TaskAudit>& audits, const AuditArguments& arguments) {
  for (const TaskAudit& audit : audits) {
    if (arguments.json) absl::PrintF("%s\n", verifier::AuditToJson(audit));
  }
}

std::string PageHead() {
  return "# Task audit\n\nWritten by `hone tasks audit --markdown`. Each task's reference runs on the CPU; answers that do no "
         "work (filled with 0, 1, the mean of an input, the mean or median that the reference gave for other inputs; an "
         "input as it is; the reference's output for other inputs) are scored on several draws of the inputs at the task's "
         "tolerance. A task is *weak* when one of them passes once, *faint* when half of its output lies within 10 "
         "tolerances of the mean, *unusable* when the reference raises, is not finite or differs between two calls. "
         "*Own error* is the reference's distance from its own float64 run. An operation is *redundant* where the answer stays "
         "right with what goes into it in place of its result (left out), or with noise there (any values): a candidate may "
         "do without it, and its speedup then says nothing about kernels.\n";
}

/// True when no task is weak or unusable.
absl::StatusOr<bool> Audit(const AuditArguments& arguments) {
  HONE_RETURN_IF_ERROR(CheckOutput("--markdown", arguments.markdown));
  HONE_RETURN_IF_ERROR(CheckOutput("--out", arguments.out));
  std::string page = PageHead(), collection;
  bool sound = true;
  for (const std::string& path : arguments.paths) {
    std::vector<Task> tasks;
    HONE_ASSIGN_OR_RETURN(const std::vector<TaskAudit> audits, AuditOne(path, arguments, tasks));
    const std::string title = path == kSuite ? "The built-in suite" : path.substr(path.find_last_of('/') + 1);
    const std::string section = verifier::AuditToMarkdown(title, audits);
    Print(audits, arguments);
    if (!arguments.json) absl::PrintF("%s\n", section);
    absl::StrAppend(&page, "\n", section);
    for (size_t i = 0; i < tasks.size(); ++i) {
      const TaskAudit::Outcome outcome = audits[i].outcome;
      tasks[i].weak = outcome == TaskAudit::Outcome::kWeak || outcome == TaskAudit::Outcome::kUnusable;
      sound = sound && !tasks[i].weak;
      absl::StrAppend(&collection, TaskToJson(tasks[i]), "\n");
    }
  }
  if (!arguments.markdown.empty()) HONE_RETURN_IF_ERROR(WriteFileAtomically(arguments.markdown, page));
  if (!arguments.out.empty()) HONE_RETURN_IF_ERROR(WriteFileAtomically(arguments.out, collection));
  return sound;
}

// ---- The command line. ----

void AddList(CLI::App& parent, Action& action) {
  auto options = std::make_shared<ListOptions>();
  CLI::App* list = parent.add_subcommand("list", "One line a task");
  list->add_option("path", options->path, "Task file, folder, KernelBench checkout or .jsonl; default: suite, the built-in one");
  list->add_option("--split", options->split, "Only train or held_out")->check(CLI::IsMember({"train", "held_out"}));
  list->add_option("--family", options->family, "Only this family");
  list->add_flag("--json", options->json, "One JSON object a line");
  list->footer("Example:\n  hone tasks list kernelbench.jsonl --family kernelbench_level1");
  list->callback([options, &action] { action = [options] { return Report(List(*options)); }; });
}

void AddShow(CLI::App& parent, Action& action) {
  auto options = std::make_shared<ShowOptions>();
  CLI::App* show = parent.add_subcommand("show", "One task: its sizes, tolerance and reference");
  show->add_option("task", options->task, "Id in the built-in suite, or a task file")->required();
  show->add_flag("--json", options->json, "As one JSON object");
  show->add_flag("--signature", options->signature, "The entry point that a native candidate must define; starts a verifier");
  show->footer("Example:\n  hone tasks show tempered_softmax --signature");
  show->callback([options, &action] { action = [options] { return Report(Show(*options)); }; });
}

void AddImport(CLI::App& parent, Action& action) {
  auto path = std::make_shared<std::string>();
  auto out = std::make_shared<std::string>();
  CLI::App* import = parent.add_subcommand("import", "Reads foreign tasks, checks them and writes one collection");
  import->add_option("path", *path, "Task file, folder, KernelBench checkout or .jsonl")->required();
  import->add_option("--out", *out, "The collection to write (.jsonl)");
  import->footer("Example:\n  hone tasks import ../KernelBench --out kernelbench.jsonl");
  import->callback([path, out, &action] { action = [path, out] { return Report(Import(*path, *out)); }; });
}

void AddAudit(CLI::App& parent, Action& action) {
  auto arguments = std::make_shared<AuditArguments>();
  CLI::App* audit = parent.add_subcommand("audit", "Finds tasks that an answer without work would pass; exit code 3 if any");
  audit->add_option("paths", arguments->paths, "Collections; default: suite, the built-in one");
  audit->add_option("--only", arguments->only, "One task of them, by id");
  audit->add_flag("--json", arguments->json, "One JSON object a line");
  audit->add_option("--markdown", arguments->markdown, "Also write the findings as a page");
  audit->add_option("--out", arguments->out, "Also write the tasks, weak ones marked, as a .jsonl collection");
  audit->add_option("--python", arguments->audit.python, "Interpreter with torch; default: $HONE_PYTHON, else the build's");
  audit->add_option("--task-seconds", arguments->task_seconds, "Longest time for one task")->check(CLI::Range(1.0, 86400.0));
  audit->add_option("--threads", arguments->audit.threads, "Threads of the references")->check(CLI::Range(1, 1024));
  audit->footer("Example:\n  hone tasks audit suite kernelbench.jsonl --markdown audit.md --out audited.jsonl");
  audit->callback([arguments, &action] {
    action = [arguments]() -> int {
      const absl::StatusOr<bool> sound = Audit(*arguments);
      if (!sound.ok()) return Report(sound.status());
      return *sound ? kDone : kAskedForFailed;
    };
  });
}

}  // namespace

void AddTasks(CLI::App& app, Action& action) {
  CLI::App* tasks = app.add_subcommand("tasks", "Lists, shows, imports and audits tasks");
  tasks->require_subcommand(1);
  tasks->footer("Examples:\n  hone tasks list --split held_out\n  hone tasks show row_range\n"
                "  hone tasks import kernelbench.jsonl --out tasks.jsonl\n  hone tasks audit --markdown audit.md");
  AddList(*tasks, action);
  AddShow(*tasks, action);
  AddImport(*tasks, action);
  AddAudit(*tasks, action);
  AddDecontaminate(*tasks, action);
}

}  // namespace hone::cli
