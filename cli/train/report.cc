#include "cli/train/report.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <nlohmann/json.hpp>
#include <sstream>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/file.h"
#include "base/html_report.h"
#include "base/journal.h"
#include "base/progress.h"
#include "base/status_macros.h"
#include "base/strings.h"
#include "rollout/episode/evaluation.h"

namespace hone::cli {
namespace {

constexpr char kEmulated[] =
    "Speeds are of emulated CUDA on this machine's processor. They say which kernel does less work there; they say nothing "
    "about a GPU.";
constexpr size_t kShownTasks = 6;

struct Curve {
  std::vector<double> steps;
  std::vector<double> values;
};

struct RunFiles {
  std::map<std::string, Curve> curves;  // metrics.jsonl by name
  std::map<std::string, double> phase_seconds;
  std::string config;
  std::map<std::string, std::vector<Group>> held_out;  // "before", "after", where evaluated
  bool emulated = true;                                // nothing was timed on a real device

  const char* Emulated() const { return emulated ? " (emulated)" : ""; }
};

bool TimedOnDevice(const Group& group) {
  for (const Episode& episode : group.episodes) {
    for (const Turn& turn : episode.turns) {
      for (const Timing& timing : turn.verdict.timings) {
        if (!timing.emulated) return true;
      }
    }
  }
  return false;
}

absl::StatusOr<std::map<std::string, Curve>> ReadCurves(const std::string& path) {
  std::map<std::string, Curve> curves;
  HONE_ASSIGN_OR_RETURN(const std::string text, ReadFile(path));
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    const auto record = nlohmann::json::parse(line, nullptr, /*allow_exceptions=*/false);
    if (!record.is_object() || !record.contains("step")) continue;  // cut by a kill
    for (const auto& [name, value] : record.items()) {
      if (!value.is_number() || name == "step" || name == "time") continue;
      curves[name].steps.push_back(record["step"].get<double>());
      curves[name].values.push_back(value.get<double>());
    }
  }
  return curves;
}

absl::StatusOr<RunFiles> ReadRun(const std::string& folder) {
  RunFiles run;
  HONE_ASSIGN_OR_RETURN(run.config, ReadFile(folder + "/config.yaml"));
  HONE_ASSIGN_OR_RETURN(run.curves, ReadCurves(folder + "/metrics.jsonl"));
  if (FileExists(folder + "/phases.json")) {
    HONE_ASSIGN_OR_RETURN(const std::string phases, ReadFile(folder + "/phases.json"));
    const auto json = nlohmann::json::parse(phases, nullptr, /*allow_exceptions=*/false);
    for (const auto& [name, seconds] : json.items()) {
      if (seconds.is_number()) run.phase_seconds[name] = seconds.get<double>();
    }
  }
  for (const char* name : {"before", "after"}) {
    const std::string path = absl::StrCat(folder, "/evaluation_", name, ".jsonl.zst");
    if (!FileExists(path)) continue;
    std::vector<Group>& groups = run.held_out[name];
    HONE_RETURN_IF_ERROR(ReadJournal(path, [&](const Group& group) {
                           groups.push_back(group);
                           if (TimedOnDevice(group)) run.emulated = false;
                           return absl::OkStatus();
                         }).status());
  }
  if (const std::string path = folder + "/journal.jsonl.zst"; run.emulated && FileExists(path)) {
    ReadJournal(path, [&](const Group& group) {  // up to the first timed candidate
      run.emulated = !TimedOnDevice(group);
      return run.emulated ? absl::OkStatus() : absl::CancelledError("");
    }).status().IgnoreError();
  }
  return run;
}

Interval SpeedOver(const std::string& baseline, const rollout::Evaluation& evaluation,
                   Interval rollout::SpeedEvaluation::*statistic = &rollout::SpeedEvaluation::geometric_mean) {
  const auto found = evaluation.speedups.find(baseline);
  return found == evaluation.speedups.end() ? Interval{std::nan("")} : found->second.*statistic;
}

std::string Show(const Interval& interval, const char* unit) {
  if (!std::isfinite(interval.value)) return "none";
  return absl::StrFormat("%.2f%s [%.2f, %.2f]", interval.value, unit, interval.low, interval.high);
}

LineSeries SeriesOf(const RunFiles& run, const std::string& metric, const std::string& name) {
  const auto found = run.curves.find(metric);
  return found == run.curves.end() ? LineSeries{name, {}, {}, {}, {}}
                                   : LineSeries{name, found->second.steps, found->second.values, {}, {}};
}

void AddComparison(const RunFiles& run, HtmlReport& report) {
  report.Section("Held-out tasks, before and after reinforcement");
  report.Paragraph("None of these tasks was trained on. Intervals are 95 % bootstrap intervals over tasks and samples.");
  HtmlTable table;
  table.columns = {"figure"};
  table.align = {Align::kLeft};
  std::map<std::string, std::vector<std::string>> rows;
  std::vector<std::string> order;
  const auto add = [&](const std::string& row, const std::string& value) {
    if (rows.count(row) == 0) order.push_back(row);
    rows[row].push_back(value);
  };
  for (const auto* name : {"before", "after"}) {
    if (run.held_out.count(name) == 0) continue;
    table.columns.push_back(name);
    table.align.push_back(Align::kRight);
    const rollout::Evaluation evaluation = rollout::Evaluate(run.held_out.at(name));
    add("correct", Show(evaluation.correct_rate, ""));
    for (const char* baseline : {"scalar", "eager"}) {
      const std::string versus = absl::StrCat(" speedup over ", baseline == std::string("eager") ? "PyTorch eager" : "the scalar kernel", run.Emulated());
      add("geometric-mean" + versus, Show(SpeedOver(baseline, evaluation), "x"));
      add("median" + versus, Show(SpeedOver(baseline, evaluation, &rollout::SpeedEvaluation::median), "x"));
    }
    add("samples", absl::StrCat(evaluation.samples));
  }
  for (const std::string& row : order) {
    std::vector<std::string> cells = {row};
    cells.insert(cells.end(), rows[row].begin(), rows[row].end());
    table.rows.push_back(std::move(cells));
  }
  report.Table(table);
}

void AddTasks(const RunFiles& run, HtmlReport& report) {
  std::map<std::string, std::map<std::string, rollout::TaskEvaluation>> by_task;
  std::vector<std::string> order;
  for (const auto& [name, groups] : run.held_out) {
    for (const rollout::TaskEvaluation& task : rollout::Evaluate(groups).tasks) {
      if (by_task.count(task.task_id) == 0) order.push_back(task.task_id);
      by_task[task.task_id][name] = task;
    }
  }
  HtmlTable table;
  table.columns = {"task", "correct before", "after", "speedup over scalar before", "after"};
  table.align = {Align::kLeft, Align::kRight, Align::kRight, Align::kRight, Align::kRight};
  const auto correct = [](const rollout::TaskEvaluation& task) {
    return task.samples == 0 ? std::string("-") : absl::StrFormat("%d / %d", task.correct, task.samples);
  };
  const auto speed = [](const rollout::TaskEvaluation& task) {
    const auto found = task.geometric_mean.find("scalar");
    return found == task.geometric_mean.end() ? std::string("-") : absl::StrFormat("%.2fx", found->second);
  };
  for (const std::string& id : order) {
    auto& names = by_task[id];
    table.rows.push_back({id, correct(names["before"]), correct(names["after"]), speed(names["before"]), speed(names["after"])});
  }
  report.Table(table);
}

void AddVerdictMix(const RunFiles& run, HtmlReport& report) {
  std::vector<std::string> names;
  std::map<std::string, std::vector<double>> shares;
  for (const char* name : {"before", "after"}) {
    if (run.held_out.count(name) == 0) continue;
    names.push_back(name);
    const rollout::Evaluation evaluation = rollout::Evaluate(run.held_out.at(name));
    double total = 0;
    for (const auto& [status, count] : evaluation.verdicts) total += count;
    for (const auto& [status, count] : evaluation.verdicts) {
      shares[status].resize(names.size());
      shares[status].back() = count / total;
    }
  }
  std::vector<BarSeries> series;
  for (auto& [status, values] : shares) {
    values.resize(names.size());
    series.push_back({status, values, {}, {}});
  }
  if (series.empty()) return;
  report.Figure(BarChart({.y_label = "share of samples"}, names, series, BarMode::kStacked), "Verdicts on held-out tasks.");
}

void AddCurves(const RunFiles& run, HtmlReport& report) {
  report.Section("Reinforcement, step by step");
  report.Figure(LineChart({.x_label = "step", .y_label = "reward"}, {SeriesOf(run, "reward/mean", "mean reward")}),
                "Mean reward of the trained turns.");
  report.Figure(LineChart({.x_label = "step", .y_label = "share"},
                          {SeriesOf(run, "correct/first_turn", "first turn"), SeriesOf(run, "correct/best_turn", "best turn")}),
                "Correct candidates, on generated and named training tasks.");
  report.Figure(LineChart({.x_label = "step", .y_label = "speedup", .log_y = true},
                          {SeriesOf(run, "speedup/scalar", "over the scalar kernel"), SeriesOf(run, "speedup/eager", "over PyTorch eager")}),
                absl::StrCat("Geometric-mean speedup of correct first turns", run.Emulated(), "."));
  report.Figure(LineChart({.x_label = "step", .y_label = "seconds"},
                          {SeriesOf(run, "seconds/generate", "generate"), SeriesOf(run, "seconds/verify", "verify"),
                           SeriesOf(run, "seconds/learn", "learn")}),
                "Where the time of a step goes.");
  report.Figure(LineChart({.x_label = "step", .y_label = "nats per token"}, {SeriesOf(run, "learn/entropy", "entropy")}),
                "Entropy of the policy on its samples.");
  if (run.curves.count("sft/loss") > 0) {
    report.Section("Supervised phase");
    report.Figure(LineChart({.x_label = "step", .y_label = "loss"}, {SeriesOf(run, "sft/loss", "loss")}),
                  "Negative log-likelihood of a token of fresh demonstrations.");
  }
}

void AddPhases(const RunFiles& run, HtmlReport& report) {
  report.Section("Time");
  HtmlTable table;
  table.columns = {"phase", "time"};
  table.align = {Align::kLeft, Align::kRight};
  double total = 0;
  for (const auto& [phase, seconds] : run.phase_seconds) {
    table.rows.push_back({phase, HumanSeconds(seconds)});
    total += seconds;
  }
  table.rows.push_back({"all", HumanSeconds(total)});
  report.Table(table);
}

std::string VerdictLine(const Verdict& verdict) {
  std::string line(StdView(Name(verdict.status)));
  for (const Timing& timing : verdict.timings) {
    absl::StrAppend(&line, absl::StrFormat("  %.2fx [%.2f, %.2f] over %s%s", timing.speedup.median, timing.speedup.low,
                                           timing.speedup.high, Name(timing.baseline), timing.emulated ? " (emulated)" : ""));
  }
  if (!verdict.ok() && !verdict.message.empty()) absl::StrAppend(&line, "  ", verdict.message);
  return line;
}

// The sample nearest the middle by speed: neither the luckiest nor the worst.
const Turn* Typical(const Group& group) {
  std::vector<const Turn*> turns;
  for (const Episode& episode : group.episodes) {
    if (!episode.turns.empty()) turns.push_back(&episode.turns.front());
  }
  if (turns.empty()) return nullptr;
  const auto rank = [](const Turn* turn) {
    return turn->verdict.ok() && turn->verdict.speed() != nullptr ? turn->verdict.speed()->speedup.median : -1.0;
  };
  std::sort(turns.begin(), turns.end(), [&](const Turn* a, const Turn* b) { return rank(a) < rank(b); });
  return turns[turns.size() / 2];
}

void AddKernels(const RunFiles& run, HtmlReport& report) {
  report.Section("Kernels before and after");
  report.Paragraph("For each task the median sample by speed.");
  const auto before = run.held_out.find("before");
  const auto after = run.held_out.find("after");
  if (before == run.held_out.end() || after == run.held_out.end()) return;
  for (size_t i = 0; i < std::min({before->second.size(), after->second.size(), kShownTasks}); ++i) {
    for (const auto& [when, group] : {std::pair{"before", &before->second[i]}, std::pair{"after", &after->second[i]}}) {
      const Turn* turn = Typical(*group);
      if (turn == nullptr) continue;
      report.Code(absl::StrCat(group->task_id, ", ", when, ": ", VerdictLine(turn->verdict)), turn->source);
    }
  }
}

}  // namespace

absl::Status WriteRunReport(const std::string& folder) {
  HONE_ASSIGN_OR_RETURN(const RunFiles run, ReadRun(folder));
  HtmlReport report("hone run", folder);
  if (run.emulated) report.Warning(kEmulated);
  AddComparison(run, report);
  AddVerdictMix(run, report);
  AddTasks(run, report);
  AddCurves(run, report);
  AddKernels(run, report);
  AddPhases(run, report);
  report.Section("Configuration");
  report.Code("config.yaml", run.config, /*open=*/false);
  return WriteFileAtomically(folder + "/report.html", report.Html());
}

absl::StatusOr<std::string> RunSummary(const std::string& folder) {
  HONE_ASSIGN_OR_RETURN(const RunFiles run, ReadRun(folder));
  if (run.held_out.empty()) return "no held-out tasks were evaluated (evaluation.before, evaluation.after)\n";
  std::string text = absl::StrFormat("%-8s %-22s %-26s %s\n", "held-out", "correct", "speedup over scalar", "over PyTorch eager");
  for (const char* name : {"before", "after"}) {
    if (run.held_out.count(name) == 0) continue;
    const rollout::Evaluation evaluation = rollout::Evaluate(run.held_out.at(name));
    absl::StrAppendFormat(&text, "%-8s %-22s %-26s %s\n", name, Show(evaluation.correct_rate, ""),
                          Show(SpeedOver("scalar", evaluation), "x"), Show(SpeedOver("eager", evaluation), "x"));
  }
  absl::StrAppend(&text, "Speedups are geometric means over correct kernels",
                  run.emulated ? ", of emulated CUDA on this processor, not of a GPU.\n" : ".\n");
  return text;
}

}  // namespace hone::cli
