// What every term promises, asked of every term that is registered.

#include <catch2/catch_test_macros.hpp>
#include <cmath>
#include <random>
#include <set>
#include <string>

#include "rewards/terms/term.h"
#include "rewards/turns/turn_rule.h"
#include "tests/rewards/outcomes.h"

namespace hone::rewards {
namespace {

TEST_CASE("No registered term scores INFRA, whatever else the outcome says", "[rewards]") {
  for (const Registration<Term>& entry : Term::Registry()) {
    INFO(entry.name);
    Outcome outcome = Passed(5);
    outcome.status = VerdictStatus::kInfra;
    outcome.truncated = true;
    CHECK(entry.make()->Score(outcome) == std::nullopt);
  }
}

TEST_CASE("Every registered term is finite for every verdict and never falls when a pass gets faster", "[rewards]") {
  std::mt19937_64 random(17);
  std::uniform_real_distribution<double> unit(0, 1);
  for (const Registration<Term>& entry : Term::Registry()) {
    INFO(entry.name);
    const Polymorphic<Term> term = entry.make();
    for (int i = 0; i < 500; ++i) {
      const VerdictStatus status = kAllStatuses[random() % std::size(kAllStatuses)];
      Outcome outcome =
          status == VerdictStatus::kOk ? Passed(std::exp(8 * unit(random) - 4)) : Failed(status, unit(random));
      outcome.response_tokens = static_cast<int64_t>(random() % 50000);
      const std::optional<double> score = term->Score(outcome);
      if (!score) continue;
      CHECK(std::isfinite(*score));
      if (!outcome.passed()) continue;
      Outcome faster = outcome;
      Speedup& speedup = faster.speedups[0];
      speedup.low = speedup.median = speedup.high = speedup.median * (1 + unit(random));
      CHECK(*term->Score(faster) >= *score);
    }
  }
}

TEST_CASE("No registered term but the length penalty pays a failure more than a pass", "[rewards]") {
  for (const Registration<Term>& entry : Term::Registry()) {
    if (entry.name == std::string("overlong")) continue;
    INFO(entry.name);
    for (const VerdictStatus status : kAllStatuses) {
      if (status == VerdictStatus::kOk || status == VerdictStatus::kInfra) continue;
      CHECK(*entry.make()->Score(Failed(status, 0.999)) <= *entry.make()->Score(Passed(0.01)));
    }
  }
}

TEST_CASE("Names are unique and every part states its formula, summary and source", "[rewards]") {
  const auto check = [](auto registry) {
    std::set<std::string> names;
    for (const auto& entry : registry) {
      INFO(entry.name);
      CHECK(names.insert(entry.name).second);
      CHECK(std::string(entry.summary).size() > 10);
      CHECK(std::string(entry.source).size() > 3);
      CHECK(entry.make()->Formula().size() > 5);
      CHECK(entry.make()->Validate().ok());
    }
  };
  check(Term::Registry());
  check(TurnRule::Registry());
}

}  // namespace
}  // namespace hone::rewards
