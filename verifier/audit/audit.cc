#include "verifier/audit/audit.h"

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/time/clock.h"
#include "base/file.h"
#include "base/names.h"
#include "base/status_macros.h"
#include "base/steady_time.h"
#include "base/strings.h"
#include "base/subprocess.h"
#include "base/task_file.h"
#include "verifier/audit/audit_worker_py.h"

namespace hone::verifier {
namespace {

using nlohmann::json;
using Outcome = TaskAudit::Outcome;

constexpr absl::Duration kPollInterval = absl::Milliseconds(50);
constexpr absl::Duration kTorchImport = absl::Minutes(2);

constexpr NameTable<Outcome, 5> kOutcomes = {{
    {Outcome::kSound, "sound"},
    {Outcome::kFaint, "faint"},
    {Outcome::kWeak, "weak"},
    {Outcome::kUnusable, "unusable"},
    {Outcome::kSkipped, "skipped"},
}};

TaskAudit FromWorker(const json& result) {
  TaskAudit audit;
  audit.id = result.value("id", "");
  if (result.contains("skipped") || result.contains("error")) {
    audit.outcome = result.contains("error") ? Outcome::kUnusable : Outcome::kSkipped;
    audit.reason = result.value(result.contains("error") ? "error" : "skipped", "");
    return audit;
  }
  for (const auto& [name, count] : result["passes"].items()) {
    if (count.get<int>() > 0) audit.weak_by.push_back(name);
  }
  audit.redundant = result["redundant"].get<std::vector<std::string>>();
  audit.operations = result["operations"].get<int>();
  audit.operations_tried = result["operations_tried"].get<int>();
  audit.nearest = result["nearest"].get<std::map<std::string, double>>();
  if (result["spread"].is_number()) audit.spread_in_tolerances = result["spread"].get<double>();
  if (result["own_error"].is_number()) audit.own_error_in_tolerances = result["own_error"].get<double>();
  audit.own_error_at = result["own_error_at"].get<std::string>();
  audit.sizes = result["sizes"].get<Sizes>();
  audit.seconds = result["seconds"].get<double>();
  audit.reason = absl::StrJoin(result["notes"].get<std::vector<std::string>>(), "; ");
  const bool faint = audit.spread_in_tolerances && *audit.spread_in_tolerances < kFaintSpread;
  audit.outcome = !audit.reason.empty()    ? Outcome::kUnusable
                  : !audit.weak_by.empty() ? Outcome::kWeak
                  : faint                  ? Outcome::kFaint
                                           : Outcome::kSound;
  return audit;
}

TaskAudit Skipped(const std::string& id, std::string reason) {
  TaskAudit audit;
  audit.id = id;
  audit.reason = std::move(reason);
  return audit;
}

/// Reads what the worker appended, whole lines only.
class ResultTail {
 public:
  explicit ResultTail(std::string path) : path_(std::move(path)) {}

  absl::StatusOr<std::vector<TaskAudit>> Next() {
    std::vector<TaskAudit> results;
    if (!FileExists(path_)) return results;
    HONE_ASSIGN_OR_RETURN(const std::string text, ReadFile(path_));
    for (size_t end; (end = text.find('\n', read_)) != std::string::npos; read_ = end + 1) {
      const json line = json::parse(text.begin() + read_, text.begin() + end, nullptr, /*allow_exceptions=*/false);
      if (line.is_discarded()) return absl::DataLossError(absl::StrCat(path_, ": the worker wrote no JSON"));
      try {
        results.push_back(FromWorker(line));
      } catch (const json::exception& error) {
        return absl::InternalError(absl::StrCat("the audit worker's answer: ", error.what()));
      }
    }
    return results;
  }

 private:
  std::string path_;
  size_t read_ = 0;
};

std::string TasksAsJson(absl::Span<const Task> tasks) {
  std::string text;
  for (const Task& task : tasks) absl::StrAppend(&text, TaskToJson(task), "\n");
  return text;
}

std::string LimitsAsJson(const AuditOptions& options) {
  return json{{"operations", options.max_operations},
              {"bytes", options.max_tensor_bytes},
              {"process_bytes", options.max_process_bytes},
              {"threads", options.threads},
              {"redundancy_s", absl::ToDoubleSeconds(options.redundancy)}}
      .dump();
}

absl::Status CheckPython(const std::string& python) {
  HONE_ASSIGN_OR_RETURN(const RunResult result, Run({.argv = {python, "-c", "import torch"}}, kTorchImport));
  if (result.exit_code == 0) return absl::OkStatus();
  const std::vector<std::string> lines = absl::StrSplit(result.output, '\n', absl::SkipEmpty());
  return absl::FailedPreconditionError(
      absl::StrCat(python, " cannot import torch: ", lines.empty() ? "it ended without a message" : lines.back()));
}

/// One worker over `tasks` until it ends or has to be ended; returns how many tasks are settled.
class Session {
 public:
  Session(const AuditOptions& options, const std::function<void(TaskAudit)>& settle)
      : options_(options), settle_(settle) {}

  absl::StatusOr<size_t> Run(absl::Span<const Task> tasks) {
    HONE_ASSIGN_OR_RETURN(const TempFolder folder, TempFolder::Create("hone-audit"));
    const auto path = [&folder](const char* name) { return absl::StrCat(folder.path(), "/", name); };
    HONE_RETURN_IF_ERROR(WriteFileAtomically(path("audit_worker.py"), AbslView(kAuditWorkerScript)));
    HONE_RETURN_IF_ERROR(WriteFileAtomically(path("tasks.jsonl"), TasksAsJson(tasks)));
    HONE_RETURN_IF_ERROR(WriteFileAtomically(path("limits.json"), LimitsAsJson(options_)));
    ResultTail tail(path("results.jsonl"));
    HONE_ASSIGN_OR_RETURN(Child worker, Child::Spawn({.argv = {options_.python, path("audit_worker.py"),
                                                               path("tasks.jsonl"), path("results.jsonl"),
                                                               path("limits.json")}}));
    size_t settled = 0;
    SteadyTime deadline = SteadyTime::Now() + kTorchImport + options_.per_task;
    while (settled < tasks.size()) {
      const bool ended = worker.Ended();  // before reading, so that its last line is seen
      HONE_ASSIGN_OR_RETURN(const std::vector<TaskAudit> results, tail.Next());
      for (const TaskAudit& result : results) settle_(result);
      settled += results.size();
      if (!results.empty()) deadline = SteadyTime::Now() + options_.per_task;
      if (settled >= tasks.size()) break;
      if (ended || SteadyTime::Now() > deadline) {
        settle_(Skipped(tasks[settled].id,
                        ended ? "its worker died, most likely out of memory"
                              : absl::StrCat("took longer than ", absl::FormatDuration(options_.per_task))));
        return settled + 1;
      }
      absl::SleepFor(kPollInterval);
    }
    return settled;
  }

 private:
  const AuditOptions& options_;
  const std::function<void(TaskAudit)>& settle_;
};

std::string NumberOrDash(const std::optional<double>& value) {
  return value ? absl::StrFormat("%.3g", *value) : "-";
}

std::string Why(const TaskAudit& audit) {
  switch (audit.outcome) {
    case Outcome::kWeak:
      return absl::StrCat("passed by: ", absl::StrJoin(audit.weak_by, ", "));
    case Outcome::kFaint:
      return absl::StrCat("half of the output lies within ", NumberOrDash(audit.spread_in_tolerances),
                          " tolerances of its mean");
    case Outcome::kSound:
    case Outcome::kUnusable:
    case Outcome::kSkipped:
      return audit.reason;
  }
  HONE_CHECK(!"unknown outcome");
}

std::string TableCell(std::string text) {
  std::replace(text.begin(), text.end(), '|', '/');
  std::replace(text.begin(), text.end(), '\n', ' ');
  return text;
}

/// The tasks with operations that their answers do not need; of weak ones nothing is needed.
std::string RedundancyTable(absl::Span<const TaskAudit> audits) {
  std::string rows;
  int untried = 0, tasks = 0;
  for (const TaskAudit& audit : audits) {
    if (audit.outcome == Outcome::kWeak) continue;
    untried += audit.operations_tried < audit.operations;
    if (audit.redundant.empty()) continue;
    ++tasks;
    constexpr size_t kShown = 6;
    const size_t shown = std::min(audit.redundant.size(), kShown);
    const std::string names = absl::StrJoin(absl::MakeSpan(audit.redundant).first(shown), ", ");
    const size_t more = audit.redundant.size() - shown;
    absl::StrAppend(&rows, "| ", audit.id, " | ", TableCell(names), more > 0 ? absl::StrCat(" and ", more, " more") : "", " |\n");
  }
  std::string text = absl::StrCat("\n", tasks, " tasks that are not weak have operations that their answers do not need");
  if (untried > 0) absl::StrAppend(&text, "; of ", untried, " tasks not all operations were tried");
  absl::StrAppend(&text, ".\n");
  if (tasks > 0) absl::StrAppend(&text, "\n| task | redundant operations |\n|---|---|\n", rows);
  return text;
}

}  // namespace

absl::string_view Name(TaskAudit::Outcome outcome) { return NameIn(kOutcomes, outcome); }

absl::StatusOr<std::vector<TaskAudit>> AuditTasks(absl::Span<const Task> tasks, const AuditOptions& options,
                                                  const std::function<void(const TaskAudit&)>& on_result) {
  HONE_RETURN_IF_ERROR(CheckPython(options.python));
  std::vector<TaskAudit> audits;
  const std::function<void(TaskAudit)> settle = [&](TaskAudit audit) {
    if (on_result) on_result(audit);
    audits.push_back(std::move(audit));
  };
  Session session(options, settle);
  for (size_t settled = 0; settled < tasks.size();) {
    HONE_ASSIGN_OR_RETURN(const size_t more, session.Run(tasks.subspan(settled)));
    settled += more;
  }
  return audits;
}

std::string AuditToJson(const TaskAudit& audit) {
  const auto number = [](const std::optional<double>& value) { return value ? json(*value) : json(nullptr); };
  return json{{"id", audit.id},
              {"outcome", std::string(Name(audit.outcome))},
              {"reason", Why(audit)},
              {"weak_by", audit.weak_by},
              {"redundant", audit.redundant},
              {"operations", audit.operations},
              {"operations_tried", audit.operations_tried},
              {"nearest", audit.nearest},
              {"spread_in_tolerances", number(audit.spread_in_tolerances)},
              {"own_error_in_tolerances", number(audit.own_error_in_tolerances)},
              {"own_error_at", audit.own_error_at},
              {"sizes", audit.sizes},
              {"seconds", audit.seconds}}
      .dump(-1, ' ', false, json::error_handler_t::replace);
}

std::string AuditToMarkdown(absl::string_view title, absl::Span<const TaskAudit> audits) {
  std::array<int, kOutcomes.size()> counts = {};
  int smaller = 0;
  for (const TaskAudit& audit : audits) {
    ++counts[static_cast<size_t>(audit.outcome)];
    smaller += !audit.sizes.empty();
  }
  std::string page = absl::StrCat("## ", title, "\n\n", audits.size(), " tasks:");
  for (const auto& [outcome, name] : kOutcomes) {
    const bool last = outcome == kOutcomes.back().first;
    absl::StrAppend(&page, " ", counts[static_cast<size_t>(outcome)], " ", name, last ? ". " : ",");
  }
  absl::StrAppend(&page, smaller, " were audited at smaller sizes than their own.\n");
  const int sound = counts[static_cast<size_t>(Outcome::kSound)];
  if (sound == static_cast<int>(audits.size())) return page + RedundancyTable(audits);
  absl::StrAppend(&page, "\n| task | outcome | why | own error, tolerances | sizes made smaller |\n|---|---|---|---|---|\n");
  for (const TaskAudit& audit : audits) {
    if (audit.outcome == Outcome::kSound) continue;
    absl::StrAppend(&page, "| ", audit.id, " | ", Name(audit.outcome), " | ", TableCell(Why(audit)), " | ",
                    NumberOrDash(audit.own_error_in_tolerances), " | ", FormatSizes(audit.sizes), " |\n");
  }
  return page + RedundancyTable(audits);
}

}  // namespace hone::verifier
