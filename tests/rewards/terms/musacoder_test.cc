#include "rewards/terms/musacoder.h"

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_floating_point.hpp>
#include <limits>
#include <random>

#include "rewards/terms/log_speed.h"
#include "tests/rewards/outcomes.h"

namespace hone::rewards {
namespace {

using Catch::Matchers::WithinAbs;

TEST_CASE("MusaCoder scores every failure but a partly right one with -1", "[rewards]") {
  for (const VerdictStatus status : kAllStatuses) {
    if (status == VerdictStatus::kOk || status == VerdictStatus::kInfra) continue;
    CHECK(MusaCoderScore().Score(Failed(status)) == -1.0);
  }
  CHECK(MusaCoderScore().Score(Failed(VerdictStatus::kCheat, 0.9)) == -1.0);  // right answers do not excuse a cheat
}

TEST_CASE("MusaCoder grades a partly right candidate by its rate of right checks", "[rewards]") {
  CHECK(MusaCoderScore().Score(Failed(VerdictStatus::kIncorrect, 0.5)) == -0.25);    // -0.5 + 0.5 * 0.5
  CHECK(MusaCoderScore().Score(Failed(VerdictStatus::kIncorrect, 0.25)) == -0.375);  // -0.5 + 0.5 * 0.25
}

TEST_CASE("MusaCoder pays the excess speedup up to the cap", "[rewards]") {
  MusaCoderScore score;
  score.lambda = 0.5;
  score.nu_max = 4;
  CHECK(score.Score(Passed(0.3)) == 1.0);  // slower than the baseline: max(nu - 1, 0) = 0
  CHECK(score.Score(Passed(1.0)) == 1.0);
  CHECK(score.Score(Passed(3.0)) == 2.0);   // 1 + 0.5 * 2
  CHECK(score.Score(Passed(5.0)) == 3.0);   // 1 + 0.5 * 4
  CHECK(score.Score(Passed(90.0)) == 3.0);  // capped
}

TEST_CASE("A speed term pays the lower bound of the interval unless told to pay the median", "[rewards]") {
  MusaCoderScore score;
  CHECK(score.Score(Passed(3, 2, 4)) == 1.5);  // 1 + 0.5 * (2 - 1)
  score.speed.median = true;
  CHECK(score.Score(Passed(3, 2, 4)) == 2.0);  // 1 + 0.5 * (3 - 1)
}

TEST_CASE("A speed term reads the baseline it names and takes a pass without that timing for a speedup of 1",
          "[rewards]") {
  MusaCoderScore score;
  score.speed.baseline = Baseline::kScalar;
  CHECK(score.NeededBaselines() == std::vector<Baseline>{Baseline::kScalar});
  CHECK(score.Score(Passed(3, 3, 3, Baseline::kScalar)) == 2.0);
  CHECK(score.Timed(Passed(3, 3, 3, Baseline::kScalar)));
  CHECK(score.Score(Passed(3)) == 1.0);
  CHECK_FALSE(score.Timed(Passed(3)));
}

TEST_CASE("INFRA is never scored", "[rewards]") {
  CHECK(MusaCoderScore().Score(Infra()) == std::nullopt);
  CHECK(LogSpeedScore().Score(Infra()) == std::nullopt);
}

TEST_CASE("The log-scaled score pays a quarter for every doubling", "[rewards]") {
  LogSpeedScore score;
  CHECK(score.Score(Passed(0.5)) == 1.0);  // floor at log2 = 0
  CHECK(score.Score(Passed(2)) == 1.25);
  CHECK(score.Score(Passed(16)) == 2.0);    // 1 + 0.25 * 4
  CHECK(score.Score(Passed(1024)) == 2.5);  // cap at log2 = 6
  score.low = -2;
  CHECK(score.Score(Passed(0.5)) == 0.75);
  score.high = -3;
  CHECK_FALSE(score.Validate().ok());
}

TEST_CASE("Scores rise with speedup, stay in their bounds and are never NaN for any verdict", "[rewards]") {
  std::mt19937_64 random(7);
  std::uniform_real_distribution<double> unit(0, 1);
  const double odd[] = {0.0,
                        -1.0,
                        std::numeric_limits<double>::quiet_NaN(),
                        std::numeric_limits<double>::infinity(),
                        std::numeric_limits<double>::denorm_min(),
                        1e300};
  for (int i = 0; i < 2000; ++i) {
    Turn turn;
    turn.verdict.status = kAllStatuses[i % std::size(kAllStatuses)];
    turn.verdict.correct_rate = i % 3 == 0 ? odd[i % 6] : unit(random);
    Timing timing;
    timing.speedup.median = i % 5 == 0 ? odd[i % 6] : 5 * unit(random);
    timing.speedup.low = i % 7 == 0 ? odd[i % 6] : timing.speedup.median * unit(random);
    turn.verdict.timings = {timing};
    const Outcome outcome = OutcomeOf(turn, "episode", 0);
    const std::optional<double> score = MusaCoderScore().Score(outcome);
    const std::optional<double> log_score = LogSpeedScore().Score(outcome);
    if (!score) continue;
    CHECK((*score >= -1 && *score <= 3));
    CHECK((*log_score >= -1 && *log_score <= 2.5));
    CHECK(*score >= (outcome.passed() ? 1 : -1));
    CHECK((outcome.passed() || *score <= 0));
    if (!outcome.passed()) continue;
    Outcome faster = outcome;
    faster.speedups[0].low *= 1 + unit(random);
    CHECK(*MusaCoderScore().Score(faster) >= *score);
    CHECK(*LogSpeedScore().Score(faster) >= *log_score);
  }
}

TEST_CASE("A lower bound above its own median counts as the median", "[rewards]") {
  Turn turn;
  turn.verdict.status = VerdictStatus::kOk;
  turn.verdict.timings = {Timing{.speedup = {.median = 2, .low = 9, .high = 1}}};
  const Outcome outcome = OutcomeOf(turn, "e", 0);
  CHECK(outcome.speedups[0] == Speedup{2, 2, 2});
}

TEST_CASE("A turn's own draw is in [0, 1), stable, and differs between turns and episodes", "[rewards]") {
  CHECK(UniformOf("episode-1", 0) == UniformOf("episode-1", 0));
  CHECK(UniformOf("episode-1", 0) != UniformOf("episode-1", 1));
  CHECK(UniformOf("episode-1", 0) != UniformOf("episode-2", 0));
  double sum = 0;
  for (int i = 0; i < 10000; ++i) {
    const double draw = UniformOf("e" + std::to_string(i), 0);
    CHECK((draw >= 0 && draw < 1));
    sum += draw;
  }
  CHECK_THAT(sum / 10000, WithinAbs(0.5, 0.0145));  // five standard errors of a uniform mean: 5 * 0.289 / 100
}

}  // namespace
}  // namespace hone::rewards
