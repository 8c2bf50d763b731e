#pragma once

// Percentile bootstrap over tasks: what a figure would be on another draw of tasks and of samples within them.

#include <cstdint>
#include <functional>
#include <vector>

namespace hone {

struct Interval {
  double value = 0;  // of the data themselves
  double low = 0;    // 2.5 % quantile of the resamples
  double high = 0;   // 97.5 %
};

/// One task's samples, one number each.
using TaskSamples = std::vector<double>;

/// Resamples tasks with replacement, then samples within each drawn task, `resamples` times, and applies `statistic` to
/// each. Statistics that are not finite (no correct kernel in a resample) are left out. Equal seeds give equal intervals.
Interval BootstrapOverTasks(const std::vector<TaskSamples>& tasks,
                            const std::function<double(const std::vector<TaskSamples>&)>& statistic,
                            int resamples = 1000, uint64_t seed = 1);

/// Mean over tasks of each task's mean. NaN when there is no sample.
double MeanOfTaskMeans(const std::vector<TaskSamples>& tasks);
/// exp of the mean of logs over all samples, all > 0. NaN when there is none.
double GeometricMean(const std::vector<TaskSamples>& tasks);
/// Median over all samples. NaN when there is none.
double Median(const std::vector<TaskSamples>& tasks);

}  // namespace hone
