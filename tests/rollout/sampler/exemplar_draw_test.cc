#include "rollout/sampler/exemplar_draw.h"

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_floating_point.hpp>
#include <cmath>

namespace hone::rollout {
namespace {

using Catch::Matchers::WithinAbs;

TEST_CASE("Bucket probabilities are the softmax of the bucket means over tau", "[sampler]") {
  // Means 1, 2, 4 at tau 2: weights e^0.5, e^1, e^2 = 1.648721, 2.718282, 7.389056, sum 11.756059.
  const std::vector<double> p = BucketProbabilities(std::vector<double>{1, 2, 4}, 2);
  CHECK_THAT(p[0], WithinAbs(0.140245, 1e-6));
  CHECK_THAT(p[1], WithinAbs(0.231224, 1e-6));
  CHECK_THAT(p[2], WithinAbs(0.628532, 1e-6));
}

TEST_CASE("Speedups in the hundreds overflow nothing", "[sampler]") {
  const std::vector<double> p = BucketProbabilities(std::vector<double>{1, 900}, 0.5);
  CHECK(p[0] == 0);
  CHECK(p[1] == 1);
}

TEST_CASE("The two buckets are distinct and drawn with the softmax's frequencies", "[sampler]") {
  SplitMix random(42);
  const std::vector<double> means = {1, 2, 4};
  constexpr int kDraws = 40000;
  int first[3] = {};
  int second_after_last[3] = {};
  for (int i = 0; i < kDraws; ++i) {
    const auto [a, b] = DrawTwoBuckets(means, 2, random);
    REQUIRE(a != b);
    ++first[a];
    if (a == 2) ++second_after_last[b];
  }
  constexpr double kTolerance = 0.0125;  // five standard errors of a share near one half over 40000 draws
  CHECK_THAT(first[0] / double{kDraws}, WithinAbs(0.140245, kTolerance));
  CHECK_THAT(first[2] / double{kDraws}, WithinAbs(0.628532, kTolerance));
  // Without the third: e^0.5 / (e^0.5 + e^1) = 0.377541.
  CHECK_THAT(second_after_last[0] / double(first[2]), WithinAbs(0.377541, 0.016));
}

TEST_CASE("A bucket far below the rest is still drawn second when it is the only other one", "[sampler]") {
  SplitMix random(1);
  CHECK(DrawTwoBuckets(std::vector<double>{1, 900}, 0.5, random) == std::pair<int64_t, int64_t>{1, 0});
}

}  // namespace
}  // namespace hone::rollout
