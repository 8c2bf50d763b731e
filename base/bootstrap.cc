#include "base/bootstrap.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>

namespace hone {
namespace {

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

std::vector<double> Flatten(const std::vector<TaskSamples>& tasks) {
  std::vector<double> all;
  for (const TaskSamples& samples : tasks) all.insert(all.end(), samples.begin(), samples.end());
  return all;
}

// std::uniform_int_distribution differs between libraries; the bias of a remainder of 64 bits is beneath notice.
size_t Below(std::mt19937_64& generator, size_t count) { return generator() % count; }

TaskSamples Resample(const TaskSamples& samples, std::mt19937_64& generator) {
  TaskSamples drawn(samples.size());
  for (double& value : drawn) value = samples[Below(generator, samples.size())];
  return drawn;
}

}  // namespace

double MeanOfTaskMeans(const std::vector<TaskSamples>& tasks) {
  double sum = 0;
  int counted = 0;
  for (const TaskSamples& samples : tasks) {
    if (samples.empty()) continue;
    double task_sum = 0;
    for (double value : samples) task_sum += value;
    sum += task_sum / static_cast<double>(samples.size());
    ++counted;
  }
  return counted > 0 ? sum / counted : kNan;
}

double GeometricMean(const std::vector<TaskSamples>& tasks) {
  const std::vector<double> all = Flatten(tasks);
  if (all.empty()) return kNan;
  double sum = 0;
  for (double value : all) sum += std::log(value);
  return std::exp(sum / static_cast<double>(all.size()));
}

double Median(const std::vector<TaskSamples>& tasks) {
  std::vector<double> all = Flatten(tasks);
  if (all.empty()) return kNan;
  std::sort(all.begin(), all.end());
  const size_t middle = all.size() / 2;
  return all.size() % 2 == 1 ? all[middle] : (all[middle - 1] + all[middle]) / 2;
}

Interval BootstrapOverTasks(const std::vector<TaskSamples>& tasks,
                            const std::function<double(const std::vector<TaskSamples>&)>& statistic, int resamples,
                            uint64_t seed) {
  Interval interval{statistic(tasks), kNan, kNan};
  if (tasks.empty()) return interval;
  std::mt19937_64 generator(seed);
  std::vector<double> values;
  for (int i = 0; i < resamples; ++i) {
    std::vector<TaskSamples> drawn(tasks.size());
    for (TaskSamples& task : drawn) task = Resample(tasks[Below(generator, tasks.size())], generator);
    const double value = statistic(drawn);
    if (std::isfinite(value)) values.push_back(value);
  }
  if (values.empty()) return interval;
  std::sort(values.begin(), values.end());
  const auto quantile = [&](double q) { return values[static_cast<size_t>(q * static_cast<double>(values.size() - 1) + 0.5)]; };
  interval.low = quantile(0.025);
  interval.high = quantile(0.975);
  return interval;
}

}  // namespace hone
