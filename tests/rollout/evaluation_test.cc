#include "rollout/episode/evaluation.h"

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_floating_point.hpp>
#include <cmath>

using Catch::Matchers::WithinAbs;

namespace hone::rollout {
namespace {

Episode EpisodeOf(VerdictStatus status, double speedup = 0) {
  Episode episode;
  Turn turn;
  turn.verdict.status = status;
  if (speedup > 0) {
    Timing timing;
    timing.baseline = Baseline::kScalar;
    timing.speedup.median = speedup;
    turn.verdict.timings.push_back(timing);
  }
  episode.turns.push_back(turn);
  return episode;
}

Group GroupOf(const std::string& task, std::vector<Episode> episodes) { return {"g-" + task, task, std::move(episodes)}; }

}  // namespace

TEST_CASE("the correct rate weighs tasks equally and leaves our own failures out") {
  const std::vector<Group> groups = {
      GroupOf("a", {EpisodeOf(VerdictStatus::kOk, 4), EpisodeOf(VerdictStatus::kOk, 1), EpisodeOf(VerdictStatus::kInfra)}),
      GroupOf("b", {EpisodeOf(VerdictStatus::kIncorrect), EpisodeOf(VerdictStatus::kCompile)}),
  };
  const Evaluation evaluation = Evaluate(groups);
  CHECK_THAT(evaluation.correct_rate.value, WithinAbs(0.5, 1e-12));
  CHECK(evaluation.samples == 4);
  CHECK(evaluation.infra == 1);
  CHECK(evaluation.verdicts.at("OK") == 2);
  CHECK_THAT(evaluation.speedups.at("scalar").geometric_mean.value, WithinAbs(2.0, 1e-12));
}

TEST_CASE("speedups are of correct kernels alone, and none is not a number") {
  const Evaluation evaluation = Evaluate({{GroupOf("a", {EpisodeOf(VerdictStatus::kIncorrect, 100)})}});
  CHECK(evaluation.speedups.empty());
  CHECK_THAT(evaluation.correct_rate.value, WithinAbs(0.0, 1e-12));
  CHECK(std::isnan(Evaluate({}).correct_rate.value));
}

}  // namespace hone::rollout
