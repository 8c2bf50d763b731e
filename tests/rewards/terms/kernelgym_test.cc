#include "rewards/terms/kernelgym.h"

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_floating_point.hpp>
#include <limits>

#include "rewards/terms/coverage.h"
#include "tests/rewards/outcomes.h"

namespace hone::rewards {
namespace {

using Catch::Matchers::WithinAbs;

Outcome Covered(double speedup, double coverage) {
  Outcome outcome = Passed(speedup);
  outcome.coverage = coverage;
  return outcome;
}

TEST_CASE("KernelGYM adds correctness, capped speedup and coverage", "[rewards]") {
  CHECK(KernelGymScore().Score(Covered(2, 1.0)) == 2.0);    // 0.5 + 0.5 * 2 + 0.5
  CHECK(KernelGymScore().Score(Covered(50, 0.5)) == 2.25);  // 0.5 + 0.5 * 3 + 0.25
  CHECK(KernelGymScore().Score(Passed(2)) == 1.5);          // coverage not measured
  CHECK(KernelGymScore().Score(Failed(VerdictStatus::kIncorrect, 0.9)) == 0.0);
  CHECK(KernelGymScore().Score(Failed(VerdictStatus::kCheat)) == 0.0);
}

TEST_CASE("Profiling-based rejection keeps a pass with probability (coverage - 0.3) / 0.1", "[rewards]") {
  int kept = 0;
  constexpr int kDraws = 20000;
  for (int i = 0; i < kDraws; ++i) {
    Outcome outcome = Covered(1, 0.33);
    outcome.uniform = UniformOf("episode-" + std::to_string(i), 0);
    kept += KernelGymScore().Score(outcome).has_value();
  }
  CHECK_THAT(kept / static_cast<double>(kDraws),
             WithinAbs(0.3, 0.017));  // five standard errors: 5 sqrt(.3 * .7 / 20000)
  Outcome low = Covered(1, 0.3);
  low.uniform = 0;
  CHECK(KernelGymScore().Score(low) == std::nullopt);
  Outcome high = Covered(1, 0.4001);  // 0.4 itself is 0.30000000000000004 + 0.1 - something in floating point
  high.uniform = 0.999999;
  CHECK(KernelGymScore().Score(high).has_value());
  KernelGymScore lenient;
  lenient.reject = false;
  CHECK(lenient.Score(low).has_value());
}

TEST_CASE("Rejection never drops a failure", "[rewards]") {
  Outcome failure = Failed(VerdictStatus::kRuntime);
  failure.coverage = 0;
  failure.uniform = 0.99;
  CHECK(KernelGymScore().Score(failure) == 0.0);
}

TEST_CASE("The verdict's coverage is what a term reads; a figure that cannot be counts as none or is clamped", "[rewards]") {
  Turn turn;
  turn.verdict.status = VerdictStatus::kOk;
  turn.verdict.timings.push_back({Baseline::kEager, {2, 2, 2, 7}});
  const auto coverage_of = [&](std::optional<double> measured) {
    turn.verdict.coverage = measured;
    return OutcomeOf(turn, "episode", 0).coverage;
  };
  CHECK(coverage_of(0.75) == 0.75);
  CHECK(KernelGymScore().Score(OutcomeOf(turn, "episode", 0)) == 1.875);  // 0.5 + 0.5 * 2 + 0.5 * 0.75
  CHECK(coverage_of(1.5) == 1.0);
  CHECK(coverage_of(std::nullopt) == std::nullopt);
  CHECK(coverage_of(std::numeric_limits<double>::quiet_NaN()) == std::nullopt);
  turn.verdict.status = VerdictStatus::kIncorrect;
  CHECK(coverage_of(0.75) == std::nullopt);
}

TEST_CASE("Coverage by itself pays passes only", "[rewards]") {
  CHECK(CoverageScore().Score(Covered(1, 0.7)) == 0.7);
  CHECK(CoverageScore().Score(Passed(1)) == 0.0);
  Outcome failure = Failed(VerdictStatus::kIncorrect);
  failure.coverage = 1;
  CHECK(CoverageScore().Score(failure) == 0.0);
}

}  // namespace
}  // namespace hone::rewards
