#include "rollout/episode/evaluation.h"

#include <cmath>
#include <nlohmann/json.hpp>
#include <set>

namespace hone::rollout {
namespace {

struct TaskFigures {
  TaskSamples correct;                          // 1 or 0 a sample
  std::map<std::string, TaskSamples> speedups;  // of correct samples, by baseline
};

std::string Text(absl::string_view text) { return std::string(text.data(), text.size()); }

void Add(const Verdict& verdict, TaskFigures& figures) {
  figures.correct.push_back(verdict.ok() ? 1 : 0);
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

  std::vector<TaskSamples> correct;
  std::set<std::string> baselines;
  for (const std::string& id : order) {
    const TaskFigures& figures = by_task[id];
    correct.push_back(figures.correct);
    TaskEvaluation task{id, static_cast<int>(figures.correct.size()), 0, {}};
    for (double value : figures.correct) task.correct += value > 0 ? 1 : 0;
    for (const auto& [baseline, samples] : figures.speedups) {
      baselines.insert(baseline);
      task.geometric_mean[baseline] = GeometricMean({samples});
    }
    evaluation.tasks.push_back(std::move(task));
  }
  evaluation.correct_rate = BootstrapOverTasks(correct, MeanOfTaskMeans);
  for (const std::string& baseline : baselines) {
    std::vector<TaskSamples> speedups;
    for (const std::string& id : order) {
      const TaskSamples& samples = by_task[id].speedups[baseline];
      if (!samples.empty()) speedups.push_back(samples);
    }
    evaluation.speedups[baseline] = {BootstrapOverTasks(speedups, GeometricMean), BootstrapOverTasks(speedups, Median)};
  }
  return evaluation;
}

std::string ToJson(const Evaluation& evaluation) {
  nlohmann::json json = {{"correct_rate", ToJson(evaluation.correct_rate)},
                         {"verdicts", evaluation.verdicts},
                         {"samples", evaluation.samples},
                         {"infra", evaluation.infra}};
  for (const auto& [baseline, speed] : evaluation.speedups) {
    json["speedup"][baseline] = {{"geometric_mean", ToJson(speed.geometric_mean)}, {"median", ToJson(speed.median)}};
  }
  for (const TaskEvaluation& task : evaluation.tasks) {
    nlohmann::json entry = {{"task", task.task_id}, {"samples", task.samples}, {"correct", task.correct}};
    for (const auto& [baseline, value] : task.geometric_mean) entry["geometric_mean"][baseline] = Number(value);
    json["tasks"].push_back(std::move(entry));
  }
  return json.dump(2);
}

}  // namespace hone::rollout
