#include "verifier/timing/statistics.h"

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_floating_point.hpp>
#include <cmath>
#include <random>

namespace hone::verifier {
namespace {

using Catch::Matchers::WithinRel;

TEST_CASE("The median of an even count is the mean of the middle two", "[verifier][timing]") {
  CHECK(Median({3, 1, 2}) == 2);
  CHECK(Median({4, 1, 3, 2}) == 2.5);
  CHECK(Median({}) == 0);
}

TEST_CASE("From six pairs on the interval is that of the sign test", "[verifier][timing]") {
  // Ranks of the 95 % interval for a median (Conover, table A3): n = 6: 1 and 6; n = 9: 2 and 8; n = 20: 6 and 15.
  const auto interval = [](int n) {
    std::vector<double> baseline, candidate(static_cast<size_t>(n), 1.0);
    for (int i = 1; i <= n; ++i) baseline.push_back(i);
    const Estimate estimate = Speedup(baseline, candidate, SpeedupStatistic::kMedianOfRatios);
    return std::make_pair(estimate.low, estimate.high);
  };
  CHECK(interval(6) == std::make_pair(1.0, 6.0));
  CHECK(interval(9) == std::make_pair(2.0, 8.0));
  CHECK(interval(20) == std::make_pair(6.0, 15.0));
}

TEST_CASE("The sign test's interval covers the true median in at least 95 % of the experiments", "[verifier][timing]") {
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
  CHECK(covered >= 0.95 * kExperiments);
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
  CHECK(estimate.median == 3);
  CHECK(estimate.low == 1.5);
  CHECK(estimate.high == 6);
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
