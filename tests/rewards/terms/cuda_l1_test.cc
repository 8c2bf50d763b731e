#include "rewards/terms/cuda_l1.h"

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_floating_point.hpp>

#include "tests/rewards/outcomes.h"

namespace hone::rewards {
namespace {

using Catch::Matchers::WithinAbs;

TEST_CASE("CUDA-L1's reward is the median of seven bucket means", "[rewards]") {
  // Two scores a bucket; means 1.0 1.1 1.2 1.05 1.15 1.02 1.08, sorted 1.0 1.02 1.05 1.08 1.1 1.15 1.2: the median
  // is 1.08.
  const std::vector<double> scores = {0.9, 1.1, 1.0, 1.2, 1.1, 1.3, 1.0, 1.1, 1.1, 1.2, 1.0, 1.04, 1.06, 1.1};
  // The mean of the means is 7.6 / 7, the sum of their squared deviations 0.0304, hence a variance of 0.0043.
  CHECK_THAT(*MedianOfBuckets(scores, 7, 0.005), WithinAbs(1.08, 1e-12));
  CHECK(MedianOfBuckets(scores, 7, 0.004) == std::nullopt);
}

TEST_CASE("An evaluation whose bucket means vary by more than 0.005 is discarded", "[rewards]") {
  // Means 1 and six times 1.2: variance 6/7 * 1/7 * 0.04 = 0.004898; with 1.3: 6/49 * 0.09 = 0.011.
  CHECK_THAT(*MedianOfBuckets(std::vector<double>{1, 1.2, 1.2, 1.2, 1.2, 1.2, 1.2}, 7, 0.005), WithinAbs(1.2, 1e-12));
  CHECK(MedianOfBuckets(std::vector<double>{1, 1.3, 1.3, 1.3, 1.3, 1.3, 1.3}, 7, 0.005) == std::nullopt);
  Outcome noisy = Passed(1.3);
  const std::vector<double> samples = {1, 1.3, 1.3, 1.3, 1.3, 1.3, 1.3};
  noisy.samples = samples;
  CHECK(CudaL1Speedup().Score(noisy) == std::nullopt);
}

TEST_CASE("Buckets differ in length by at most one and follow the order of measurement", "[rewards]") {
  // Nine scores in two buckets: 4 and 5. Means 1 and 2.
  CHECK(*MedianOfBuckets(std::vector<double>{1, 1, 1, 1, 2, 2, 2, 2, 2}, 2, 1) == 1.5);
  CHECK(MedianOfBuckets(std::vector<double>{1, 1}, 7, 1) == std::nullopt);  // too few to judge
}

TEST_CASE("Speedups are rounded to two decimals towards 1", "[rewards]") {
  CHECK(RoundTowardsOne(1.118) == 1.11);
  CHECK(RoundTowardsOne(0.992) == 1.00);
  CHECK(RoundTowardsOne(0.981) == 0.99);
  CHECK(RoundTowardsOne(1.15) == 1.15);  // 100 * 1.15 is 114.99999999999999
  CHECK(RoundTowardsOne(0.57) == 0.57);  // 100 * 0.57 is 56.99999999999999
  CHECK(RoundTowardsOne(1.0) == 1.0);
}

TEST_CASE("A pass earns its speedup, a failure 0, our own fault nothing", "[rewards]") {
  CHECK(CudaL1Speedup().Score(Passed(2.5, 2.437, 2.6)) == 2.43);  // the lower bound by default
  CudaL1Speedup by_median;
  by_median.speed.median = true;
  CHECK(by_median.Score(Passed(2.5, 2.4, 2.6)) == 2.5);
  CHECK(CudaL1Speedup().Score(Failed(VerdictStatus::kIncorrect, 0.99)) == 0.0);
  CHECK(CudaL1Speedup().Score(Failed(VerdictStatus::kCheat)) == 0.0);
  CHECK(CudaL1Speedup().Score(Infra()) == std::nullopt);
}

TEST_CASE("With samples and the median, the paper's own rule decides", "[rewards]") {
  CudaL1Speedup term;
  term.speed.median = true;
  Outcome outcome = Passed(9, 9, 9);  // the interval says 9; the buckets' median is 1.01
  const std::vector<double> samples = {1.0, 1.0, 1.01, 1.018, 1.019, 1.02, 1.03};
  outcome.samples = samples;
  CHECK(term.Score(outcome) == 1.01);        // 1.018 rounded towards 1
  term.speed.baseline = Baseline::kCompile;  // the samples are of another baseline
  outcome.speedups[static_cast<int>(Baseline::kCompile)] = {4, 4, 4};
  CHECK(term.Score(outcome) == 4.0);
}

TEST_CASE("A score above 3, or above twice the best so far, is doubted", "[rewards]") {
  const RemeasureRule rule;
  CHECK_FALSE(rule.Doubts(3.0, std::nullopt));
  CHECK(rule.Doubts(3.01, std::nullopt));
  CHECK_FALSE(rule.Doubts(2.4, 1.2));
  CHECK(rule.Doubts(2.41, 1.2));
}

TEST_CASE("A second measurement within 10 % confirms the first, in either order", "[rewards]") {
  const RemeasureRule rule;
  CHECK(rule.Confirms(4.0, 4.39));
  CHECK(rule.Confirms(4.39, 4.0));
  CHECK_FALSE(rule.Confirms(4.0, 4.41));
  CHECK_FALSE(rule.Confirms(4.41, 4.0));
}

}  // namespace
}  // namespace hone::rewards
