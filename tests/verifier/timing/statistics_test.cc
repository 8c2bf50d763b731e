#include "verifier/timing/statistics.h"

#include <algorithm>
#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_floating_point.hpp>
#include <cmath>
#include <random>
#include <utility>
#include <vector>

namespace hone::verifier {
namespace {

using Catch::Matchers::WithinRel;

TEST_CASE("The median of an even count is the mean of the middle two", "[verifier][timing]") {
  CHECK(Median({3, 1, 2}) == 2);
  CHECK(Median({4, 1, 3, 2}) == 2.5);
  CHECK(Median({}) == 0);
}

TEST_CASE("The speedup is the middle of the geometric means of all pairs of ratios", "[verifier][timing]") {
  // Logarithms 0, 1, 5 to the base 2: pair means 0, 0.5, 1, 2.5, 3, 5, whose middle is 1.75.
  const Estimate estimate = Speedup({1, 2, 32}, {1, 1, 1}, SpeedupStatistic::kMedianOfRatios);
  CHECK_THAT(estimate.median, WithinRel(std::exp2(1.75), 1e-12));
}

TEST_CASE("From six pairs on the interval is that of the signed ranks", "[verifier][timing]") {
  // Ratios whose pair means are all different, so that a bound tells its rank among them. Two-sided 5 % points of W
  // (Conover, table A12: P(W < k) <= 0.025): n = 6: 1; 7: 3; 8: 4; 9: 6; 10: 9; 12: 14; 15: 26; 20: 53; 25: 90.
  const auto rank = [](int n) {
    std::vector<double> logs, means, baseline, candidate(static_cast<size_t>(n), 1.0);
    std::mt19937 random(static_cast<unsigned>(n));
    std::uniform_real_distribution<double> uniform;
    for (int i = 0; i < n; ++i) logs.push_back(uniform(random));
    for (int i = 0; i < n; ++i) {
      baseline.push_back(std::exp(logs[static_cast<size_t>(i)]));
      for (int j = i; j < n; ++j) means.push_back((logs[static_cast<size_t>(i)] + logs[static_cast<size_t>(j)]) / 2);
    }
    std::sort(means.begin(), means.end());
    const Estimate estimate = Speedup(baseline, candidate, SpeedupStatistic::kMedianOfRatios);
    const auto below = [&](double bound) {
      return std::count_if(means.begin(), means.end(), [&](double mean) { return mean < std::log(bound) - 1e-12; });
    };
    CHECK(below(estimate.low) == static_cast<long>(means.size()) - 1 - below(estimate.high));  // as many on either side
    return static_cast<int>(below(estimate.low)) + 1;
  };
  for (const auto& [n, k] : std::vector<std::pair<int, int>>{
           {6, 1}, {7, 3}, {8, 4}, {9, 6}, {10, 9}, {12, 14}, {15, 26}, {20, 53}, {25, 90}}) {
    INFO(n);
    CHECK(rank(n) == k);
  }
}

TEST_CASE("The interval covers the true ratio in 95 % of the experiments, few more", "[verifier][timing]") {
  std::mt19937 random(7);
  std::lognormal_distribution<double> noise(0.0, 0.2);  // median 1
  int covered = 0;
  constexpr int kExperiments = 4000;
  for (int k = 0; k < kExperiments; ++k) {
    std::vector<double> baseline, candidate(15, 1.0);
    for (int i = 0; i < 15; ++i) baseline.push_back(2.0 * noise(random));
    const Estimate estimate = Speedup(baseline, candidate, SpeedupStatistic::kMedianOfRatios);
    covered += estimate.low <= 2.0 && 2.0 <= estimate.high;
  }
  // P(W < 26 or W > 94) = 4.8 % at n = 15; three standard deviations of 4,000 experiments are 1.0 %.
  CHECK(covered >= 0.942 * kExperiments);
  CHECK(covered <= 0.962 * kExperiments);
}

TEST_CASE("A quarter of the rounds, however far off, leaves the speedup where the others are", "[verifier][timing]") {
  std::vector<double> baseline, candidate(12, 1.0);
  for (int i = 0; i < 9; ++i) baseline.push_back(2.0 + 0.001 * i);
  for (int i = 0; i < 3; ++i) baseline.push_back(1e6);
  const Estimate estimate = Speedup(baseline, candidate, SpeedupStatistic::kMedianOfRatios);
  CHECK(estimate.median >= 2.0);
  CHECK(estimate.median <= 2.008);
}

TEST_CASE("With two to five pairs it is Student's t on the logarithms", "[verifier][timing]") {
  // Ratios e^-1, 1, e: mean 0, standard deviation 1 of the logarithms; t(0.975, 2) = 4.303.
  const Estimate estimate = Speedup({std::exp(-1.0), 1, std::exp(1.0)}, {1, 1, 1}, SpeedupStatistic::kMedianOfRatios);
  CHECK_THAT(estimate.median, WithinRel(1.0, 1e-12));
  CHECK_THAT(std::log(estimate.high), WithinRel(4.303 / std::sqrt(3.0), 1e-9));
  CHECK_THAT(estimate.low, WithinRel(1 / estimate.high, 1e-9));
}

TEST_CASE("One pair is no evidence of its own precision", "[verifier][timing]") {
  const Estimate estimate = Speedup({6}, {2}, SpeedupStatistic::kMedianOfRatios);
  CHECK_THAT(estimate.median, WithinRel(3.0, 1e-12));
  CHECK_THAT(estimate.low, WithinRel(1.5, 1e-12));
  CHECK_THAT(estimate.high, WithinRel(6.0, 1e-12));
}

TEST_CASE("Four times as many pairs can be expected to halve the interval", "[verifier][timing]") {
  const Estimate estimate = {1.0, 0.98, 1.02, 16};  // half width 0.02
  CHECK(CanNarrow(estimate, 64, 0.0101));
  CHECK_FALSE(CanNarrow(estimate, 64, 0.0099));
  CHECK_FALSE(CanNarrow({0, 0, 0, 16}, 64, 0.01));
}

TEST_CASE("The ratio of means is KernelBench's statistic, not the mean of ratios", "[verifier][timing]") {
  const Estimate estimate = Speedup({1, 9}, {1, 3}, SpeedupStatistic::kRatioOfMeans);
  CHECK(estimate.median == 2.5);
}

}  // namespace
}  // namespace hone::verifier
