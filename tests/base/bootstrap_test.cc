#include "base/bootstrap.h"

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_floating_point.hpp>
#include <cmath>

using Catch::Matchers::WithinAbs;

namespace hone {

TEST_CASE("a task with many samples weighs no more than one with few") {
  CHECK_THAT(MeanOfTaskMeans({{1, 1, 1, 1}, {0}}), WithinAbs(0.5, 1e-12));
}

TEST_CASE("the geometric mean of 1, 2 and 4 is 2, of nothing it is not a number") {
  CHECK_THAT(GeometricMean({{1, 2}, {4}}), WithinAbs(2.0, 1e-12));
  CHECK(std::isnan(GeometricMean({{}, {}})));
}

TEST_CASE("the median of an even number of samples lies between the middle two") {
  CHECK_THAT(Median({{4, 1}, {2, 3}}), WithinAbs(2.5, 1e-12));
}

TEST_CASE("an interval over tasks is as wide as the tasks differ, not as the samples within them are many") {
  const std::vector<TaskSamples> tasks = {TaskSamples(1000, 0.0), TaskSamples(1000, 1.0)};
  const Interval interval = BootstrapOverTasks(tasks, MeanOfTaskMeans);
  CHECK_THAT(interval.value, WithinAbs(0.5, 1e-12));
  CHECK_THAT(interval.low, WithinAbs(0.0, 1e-12));  // both draws the first task: probability 1/4
  CHECK_THAT(interval.high, WithinAbs(1.0, 1e-12));
}

TEST_CASE("the bootstrap of a mean agrees with the normal interval of the same data") {
  std::vector<TaskSamples> tasks;
  for (int i = 0; i < 100; ++i) tasks.push_back({static_cast<double>(i % 10)});
  const Interval interval = BootstrapOverTasks(tasks, MeanOfTaskMeans, 4000);
  // Standard deviation of 0..9 repeated is sqrt(8.25); of the mean of 100 it is 0.287, so the half width is 0.563.
  CHECK_THAT(interval.value, WithinAbs(4.5, 1e-12));
  CHECK_THAT(interval.low, WithinAbs(4.5 - 0.563, 0.08));
  CHECK_THAT(interval.high, WithinAbs(4.5 + 0.563, 0.08));
}

}  // namespace hone
