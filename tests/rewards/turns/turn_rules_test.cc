#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_floating_point.hpp>

#include "rewards/turns/discounted.h"
#include "rewards/turns/primeecho.h"
#include "rewards/turns/single.h"

namespace hone::rewards {
namespace {

using Catch::Matchers::WithinAbs;
using Rewards = std::vector<std::optional<double>>;

constexpr double kUlps = 1e-12;  // a handful of rounding errors of numbers near 1

Rewards Credit(const TurnRule& rule, const std::vector<ScoredTurn>& turns) {
  Rewards rewards(turns.size());
  rule.Credit(turns, absl::MakeSpan(rewards));
  return rewards;
}

TEST_CASE("PrimeEcho anchors on the first turn and adds the bonus of an early pass", "[rewards]") {
  const PrimeEcho rule;
  // 0.75 * 1.6 + 0.25 * 1.6 + 0.15
  CHECK_THAT(*Credit(rule, {{1.6, true}})[0], WithinAbs(1.75, kUlps));
  // 0.75 * -1 + 0.25 * 1 + 0.08
  CHECK_THAT(*Credit(rule, {{-1, false}, {1, true}})[0], WithinAbs(-0.42, kUlps));
  // 0.75 * -1 + 0.25 * 1: a pass at turn 3 has no bonus
  CHECK_THAT(*Credit(rule, {{-1, false}, {-1, false}, {1, true}})[0], WithinAbs(-0.5, kUlps));
  // 0.75 * -0.2 + 0.25 * 1 + 0.08
  CHECK_THAT(*Credit(rule, {{-0.2, false}, {1, true}})[0], WithinAbs(0.18, kUlps));
  // never passes; the best turn is the second: 0.75 * -1 + 0.25 * -0.25
  CHECK_THAT(*Credit(rule, {{-1, false}, {-0.25, false}, {-1, false}})[0], WithinAbs(-0.8125, kUlps));
}

TEST_CASE("PrimeEcho's best turn may be the first", "[rewards]") {
  // 0.75 * 2 + 0.25 * 2 + 0.15, although the second turn is worse
  CHECK_THAT(*Credit(PrimeEcho(), {{2, true}, {-1, false}})[0], WithinAbs(2.15, kUlps));
}

TEST_CASE("PrimeEcho trains the first turn and no other", "[rewards]") {
  const Rewards rewards = Credit(PrimeEcho(), {{-1, false}, {1, true}, {2, true}});
  CHECK(rewards[0].has_value());
  CHECK_FALSE(rewards[1].has_value());
  CHECK_FALSE(rewards[2].has_value());
}

TEST_CASE("PrimeEcho has no sample when any turn has no score", "[rewards]") {
  CHECK_FALSE(Credit(PrimeEcho(), {{std::nullopt, false}, {1, true}})[0].has_value());
  CHECK_FALSE(Credit(PrimeEcho(), {{-1, false}, {std::nullopt, false}})[0].has_value());
  CHECK(Credit(PrimeEcho(), {}).empty());
}

TEST_CASE("Kevin's return discounts later scores and trains every turn", "[rewards]") {
  const Rewards rewards = Credit(DiscountedReturn(), {{-1, false}, {0.5, false}, {2, true}});
  CHECK_THAT(*rewards[2], WithinAbs(2, kUlps));
  CHECK_THAT(*rewards[1], WithinAbs(1.3, kUlps));    // 0.5 + 0.4 * 2
  CHECK_THAT(*rewards[0], WithinAbs(-0.48, kUlps));  // -1 + 0.4 * 0.5 + 0.16 * 2
}

TEST_CASE("A return that would need a missing score is missing; later turns keep theirs", "[rewards]") {
  const Rewards rewards = Credit(DiscountedReturn(), {{1, true}, {std::nullopt, false}, {2, true}});
  CHECK_FALSE(rewards[0].has_value());
  CHECK_FALSE(rewards[1].has_value());
  CHECK(rewards[2] == 2.0);
}

TEST_CASE("A single score stands for the episode", "[rewards]") {
  const std::vector<ScoredTurn> turns = {{-1, false}, {2, true}, {1, true}};
  SingleScore rule;
  CHECK(Credit(rule, turns) == Rewards{2.0, 2.0, 2.0});
  rule.take = "last";
  CHECK(Credit(rule, turns) == Rewards{1.0, 1.0, 1.0});
  rule.take = "first";
  rule.train = "first";
  CHECK(Credit(rule, turns) == Rewards{-1.0, std::nullopt, std::nullopt});
  CHECK(Credit(rule, {{-1, false}, {std::nullopt, false}}) == Rewards{-1.0, std::nullopt});
  rule.take = "best";
  CHECK(Credit(rule, {{-1, false}, {std::nullopt, false}}) == Rewards{std::nullopt, std::nullopt});
}

}  // namespace
}  // namespace hone::rewards
