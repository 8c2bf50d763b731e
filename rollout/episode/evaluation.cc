#include "rollout/episode/evaluation.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <set>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

namespace hone::rollout {
namespace {

struct TaskFigures {
  TaskSamples correct, built;                   // 1 or 0 a sample
  std::map<std::string, TaskSamples> speedups;  // of correct samples, by baseline
};

// Of one task's 1s and 0s, over tasks: the share of tasks with a 1.
double ShareOfTasksWithAny(const std::vector<TaskSamples>& tasks) {
  double solved = 0, asked = 0;
  for (const TaskSamples& task : tasks) {
    if (task.empty()) continue;
    ++asked;
    solved += *std::max_element(task.begin(), task.end()) > 0 ? 1 : 0;
  }
  return solved / asked;
}

// 1 for each sample that is correct and faster than the baseline.
TaskSamples Faster(const TaskFigures& figures, const std::string& baseline) {
  TaskSamples faster(figures.correct.size(), 0);
  const auto speedups = figures.speedups.find(baseline);
  if (speedups == figures.speedups.end()) return faster;
  const auto count = std::count_if(speedups->second.begin(), speedups->second.end(), [](double s) { return s > 1; });
  std::fill_n(faster.begin(), count, 1);
  return faster;
}

std::string Text(absl::string_view text) { return std::string(text.data(), text.size()); }

// Whether the candidate got as far as running.
bool Built(VerdictStatus status) {
  return status != VerdictStatus::kParse && status != VerdictStatus::kForbidden && status != VerdictStatus::kCompile &&
         status != VerdictStatus::kCompileTimeout;
}

void Add(const Verdict& verdict, TaskFigures& figures) {
  figures.correct.push_back(verdict.ok() ? 1 : 0);
  figures.built.push_back(Built(verdict.status) ? 1 : 0);
  if (!verdict.ok()) return;
  for (const Timing& timing : verdict.timings) {
    if (timing.speedup.median > 0) figures.speedups[Text(Name(timing.baseline))].push_back(timing.speedup.median);
  }
}

nlohmann::json Number(double value) {
  return std::isfinite(value) ? nlohmann::json(value) : nlohmann::json(nullptr);
}

nlohmann::json ToJson(const Interval& interval) {
  return {{"value", Number(interval.value)}, {"low", Number(interval.low)}, {"high", Number(interval.high)}};
}

}  // namespace

Evaluation Evaluate(absl::Span<const Group> groups) {
  Evaluation evaluation;
  std::vector<std::string> order;
  std::map<std::string, TaskFigures> by_task;
  for (const Group& group : groups) {
    if (by_task.count(group.task_id) == 0) order.push_back(group.task_id);
    TaskFigures& figures = by_task[group.task_id];
    for (const Episode& episode : group.episodes) {
      if (episode.turns.empty()) continue;
      const Verdict& verdict = episode.turns.front().verdict;
      ++evaluation.verdicts[Text(Name(verdict.status))];
      if (verdict.status == VerdictStatus::kInfra) {
        ++evaluation.infra;
        continue;
      }
      ++evaluation.samples;
      Add(verdict, figures);
    }
  }

  std::vector<TaskSamples> correct, built;
  std::set<std::string> baselines;
  for (const std::string& id : order) {
    const TaskFigures& figures = by_task[id];
    correct.push_back(figures.correct);
    built.push_back(figures.built);
    TaskEvaluation task{id, static_cast<int>(figures.correct.size()), 0, {}};
    for (double value : figures.correct) task.correct += value > 0 ? 1 : 0;
    for (const auto& [baseline, samples] : figures.speedups) {
      baselines.insert(baseline);
      task.geometric_mean[baseline] = GeometricMean({samples});
    }
    evaluation.tasks.push_back(std::move(task));
  }
  evaluation.correct_rate = BootstrapOverTasks(correct, MeanOfTaskMeans);
  evaluation.solved_rate = BootstrapOverTasks(correct, ShareOfTasksWithAny);
  evaluation.built_rate = BootstrapOverTasks(built, MeanOfTaskMeans);
  for (const std::string& baseline : baselines) {
    std::vector<TaskSamples> speedups, faster;
    for (const std::string& id : order) {
      faster.push_back(Faster(by_task[id], baseline));
      const TaskSamples& samples = by_task[id].speedups[baseline];
      if (!samples.empty()) speedups.push_back(samples);
    }
    evaluation.speedups[baseline] = {BootstrapOverTasks(speedups, GeometricMean), BootstrapOverTasks(speedups, Median),
                                     BootstrapOverTasks(faster, MeanOfTaskMeans)};
  }
  return evaluation;
}

std::string ToJson(const Evaluation& evaluation) {
  nlohmann::json json = {{"correct_rate", ToJson(evaluation.correct_rate)},
                         {"solved_rate", ToJson(evaluation.solved_rate)},
                         {"built_rate", ToJson(evaluation.built_rate)},
                         {"verdicts", evaluation.verdicts},
                         {"samples", evaluation.samples},
                         {"infra", evaluation.infra}};
  for (const auto& [baseline, speed] : evaluation.speedups) {
    json["speedup"][baseline] = {{"geometric_mean", ToJson(speed.geometric_mean)}, {"median", ToJson(speed.median)},
                                 {"fast_1", ToJson(speed.fast_1)}};
  }
  for (const TaskEvaluation& task : evaluation.tasks) {
    nlohmann::json entry = {{"task", task.task_id}, {"samples", task.samples}, {"correct", task.correct}};
    for (const auto& [baseline, value] : task.geometric_mean) entry["geometric_mean"][baseline] = Number(value);
    json["tasks"].push_back(std::move(entry));
  }
  return json.dump(2);
}

std::string ToText(const Evaluation& evaluation) {
  std::string text;
  const auto line = [&](const std::string& name, const Interval& interval) {
    absl::StrAppendFormat(&text, "%-28s %7.3f  [%.3f, %.3f]\n", name, interval.value, interval.low, interval.high);
  };
  absl::StrAppendFormat(&text, "%d tasks, %d samples, %d without a verdict\n", evaluation.tasks.size(), evaluation.samples,
                        evaluation.infra);
  line("Pass@1", evaluation.correct_rate);
  line("tasks solved", evaluation.solved_rate);
  line("compiled", evaluation.built_rate);
  for (const auto& [baseline, speed] : evaluation.speedups) {
    line("fast_1 over " + baseline, speed.fast_1);
    line("geometric mean over " + baseline, speed.geometric_mean);
  }
  for (const auto& [status, count] : evaluation.verdicts) absl::StrAppendFormat(&text, "%-28s %7d\n", status, count);
  return text;
}

}  // namespace hone::rollout
