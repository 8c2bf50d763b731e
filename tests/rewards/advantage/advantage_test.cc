#include "rewards/advantage/advantage.h"

#include <algorithm>
#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_floating_point.hpp>
#include <cmath>
#include <random>
#include <string>

#include "rewards/advantage/group.h"
#include "rewards/advantage/reinforce.h"

namespace hone::rewards {
namespace {

using Catch::Matchers::WithinAbs;

std::vector<double> Compute(const Advantage& advantage, const std::vector<std::vector<double>>& groups) {
  std::vector<Sample> samples;
  for (size_t g = 0; g < groups.size(); ++g) {
    for (const double reward : groups[g]) samples.push_back({static_cast<int64_t>(g), reward});
  }
  std::vector<double> advantages(samples.size(), -99);
  advantage.Compute(samples, absl::MakeSpan(advantages));
  return advantages;
}

TEST_CASE("GRPO normalises by the group's mean and population standard deviation", "[rewards]") {
  Grpo grpo;
  grpo.epsilon = 1e-12;
  // mean 1, deviations -2 0 2, population variance 8/3
  const std::vector<double> a = Compute(grpo, {{-1, 1, 3}});
  CHECK_THAT(a[0], WithinAbs(-1.224744871391589, 1e-11));  // -2 / sqrt(8/3) = -sqrt(3/2)
  CHECK(a[1] == 0);
  CHECK_THAT(a[2], WithinAbs(1.224744871391589, 1e-11));
  grpo.epsilon = 0.5;
  CHECK_THAT(Compute(grpo, {{0, 2}})[1], WithinAbs(1 / 1.5, 1e-12));  // (2 - 1) / (1 + 0.5)
}

TEST_CASE("Dr.GRPO subtracts the mean; RLOO the mean of the others", "[rewards]") {
  CHECK(Compute(DrGrpo(), {{0, 1, 5}}) == std::vector<double>{-2, -1, 3});
  const std::vector<double> a = Compute(Rloo(), {{0, 1, 5}});
  CHECK_THAT(a[0], WithinAbs(-3, 1e-12));    // 0 - (1 + 5) / 2
  CHECK_THAT(a[1], WithinAbs(-1.5, 1e-12));  // 1 - (0 + 5) / 2
  CHECK_THAT(a[2], WithinAbs(4.5, 1e-12));   // 5 - (0 + 1) / 2
}

TEST_CASE("REINFORCE++ normalises over the batch", "[rewards]") {
  // whole batch: mean 2, deviations -2 0 0 2, variance 2
  const std::vector<double> a = Compute(ReinforcePlusPlus(), {{0, 2}, {2, 4}});
  CHECK_THAT(a[0], WithinAbs(-std::sqrt(2), 1e-6));
  CHECK_THAT(a[1], WithinAbs(0, 1e-12));
  CHECK_THAT(a[3], WithinAbs(std::sqrt(2), 1e-6));
  ReinforcePlusPlus with_group;
  with_group.baseline = "group";
  // centred: -1 1 -1 1 0 0, variance 4/6
  const std::vector<double> b = Compute(with_group, {{0, 2}, {2, 4}, {7, 7}});
  CHECK_THAT(b[0], WithinAbs(-std::sqrt(1.5), 1e-6));
  CHECK(b[4] == 0);
  CHECK(b[5] == 0);
}

TEST_CASE("A group of equal rewards gets exact zeros, where a float mean would not", "[rewards]") {
  double sum = 0;
  for (int i = 0; i < 7; ++i) sum += 0.1;
  REQUIRE(sum / 7 != 0.1);  // what the naive version trips over
  ReinforcePlusPlus with_group;
  with_group.baseline = "group";
  const Grpo grpo;
  const DrGrpo dr_grpo;
  const Rloo rloo;
  const Trloo trloo;
  const Advantage* all[] = {&grpo, &dr_grpo, &rloo, &trloo, &with_group};
  for (const Advantage* advantage : all) {
    const std::vector<double> a = Compute(*advantage, {std::vector<double>(7, 0.1), {0.0, 1.0}});
    for (int i = 0; i < 7; ++i) CHECK(a[i] == 0.0);
    CHECK(a[7] != 0.0);
  }
  for (const double a : Compute(ReinforcePlusPlus(), {std::vector<double>(7, 0.1)})) CHECK(a == 0.0);
}

TEST_CASE("A group of one is zero, but for TRLOO, which keeps the return", "[rewards]") {
  CHECK(Compute(Grpo(), {{3}})[0] == 0);
  CHECK(Compute(DrGrpo(), {{3}})[0] == 0);
  CHECK(Compute(Rloo(), {{3}})[0] == 0);
  CHECK(Compute(ReinforcePlusPlus(), {{3}})[0] == 0);
  CHECK(Compute(Trloo(), {{3}, {0, 2}}) == std::vector<double>{3, -2, 2});  // 2/1 * (r - 1)
}

TEST_CASE("Every advantage survives an empty batch", "[rewards]") {
  for (const Registration<Advantage>& entry : Advantage::Registry()) CHECK(Compute(*entry.make(), {}).empty());
}

TEST_CASE("Advantages follow their samples when a group is permuted, sum to zero and keep the order of rewards",
          "[rewards]") {
  std::mt19937_64 random(11);
  std::uniform_real_distribution<double> reward(-1, 3);
  for (int round = 0; round < 200; ++round) {
    std::vector<double> group(2 + random() % 9);
    for (double& r : group) r = round % 4 == 0 ? static_cast<double>(random() % 3) : reward(random);
    std::vector<size_t> order(group.size());
    for (size_t i = 0; i < order.size(); ++i) order[i] = i;
    std::shuffle(order.begin(), order.end(), random);
    std::vector<double> shuffled;
    for (const size_t i : order) shuffled.push_back(group[i]);
    for (const Registration<Advantage>& entry : Advantage::Registry()) {
      const std::vector<double> a = Compute(*entry.make(), {group});
      const std::vector<double> b = Compute(*entry.make(), {shuffled});
      double sum = 0;
      for (size_t i = 0; i < order.size(); ++i) {
        CHECK_THAT(b[i], WithinAbs(a[order[i]], 1e-9));  // sums in another order differ in their last bits
        CHECK(std::isfinite(a[i]));
        sum += a[i];
        for (size_t j = 0; j < i; ++j) CHECK((group[i] < group[j]) == (a[i] < a[j]));
      }
      CHECK_THAT(sum, WithinAbs(0, 1e-9));
    }
  }
}

}  // namespace
}  // namespace hone::rewards
