#include "rollout/episode/evaluation.h"

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_floating_point.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>
#include <vector>

namespace hone::rollout {
namespace {

using Catch::Matchers::ContainsSubstring;
using Catch::Matchers::WithinRel;

Episode Answered(VerdictStatus status, double speedup = 0) {
  Episode episode;
  Turn turn;
  turn.verdict.status = status;
  if (status == VerdictStatus::kOk) {
    Timing timing;
    timing.baseline = Baseline::kEager;
    timing.speedup = {speedup, speedup, speedup, 7};
    turn.verdict.timings = {timing};
  }
  episode.turns = {turn};
  return episode;
}

Group Of(const std::string& task, std::vector<Episode> episodes) {
  Group group;
  group.task_id = task;
  group.episodes = std::move(episodes);
  return group;
}

// Two of four right, one of them faster; none of two; one of one. INFRA is no sample.
std::vector<Group> Groups() {
  return {Of("a", {Answered(VerdictStatus::kOk, 2.0), Answered(VerdictStatus::kOk, 0.5), Answered(VerdictStatus::kCompile),
                   Answered(VerdictStatus::kIncorrect), Answered(VerdictStatus::kInfra)}),
          Of("b", {Answered(VerdictStatus::kRuntime), Answered(VerdictStatus::kParse)}),
          Of("c", {Answered(VerdictStatus::kOk, 8.0)})};
}

}  // namespace

TEST_CASE("Pass@1 is the mean over tasks, and a task is solved by any right sample", "[rollout][evaluation]") {
  const Evaluation evaluation = Evaluate(Groups());
  CHECK_THAT(evaluation.correct_rate.value, WithinRel((0.5 + 0.0 + 1.0) / 3, 1e-12));
  CHECK_THAT(evaluation.solved_rate.value, WithinRel(2.0 / 3, 1e-12));
  CHECK_THAT(evaluation.built_rate.value, WithinRel((0.75 + 0.5 + 1.0) / 3, 1e-12));
  CHECK(evaluation.samples == 7);
  CHECK(evaluation.infra == 1);
}

TEST_CASE("fast_1 counts samples that are right and faster, of all samples", "[rollout][evaluation]") {
  const Evaluation evaluation = Evaluate(Groups());
  const SpeedEvaluation& speed = evaluation.speedups.at("eager");
  CHECK_THAT(speed.fast_1.value, WithinRel((0.25 + 0.0 + 1.0) / 3, 1e-12));
  CHECK_THAT(speed.geometric_mean.value, WithinRel(2.0, 1e-12));  // of 2, 0.5 and 8
}

TEST_CASE("Intervals hold their figure and widen with fewer tasks", "[rollout][evaluation]") {
  std::vector<Group> many;
  for (int i = 0; i < 8; ++i) {
    for (Group group : Groups()) {
      group.task_id += std::to_string(i);
      many.push_back(std::move(group));
    }
  }
  const Evaluation few = Evaluate(Groups()), more = Evaluate(many);
  CHECK(few.correct_rate.low <= few.correct_rate.value);
  CHECK(few.correct_rate.value <= few.correct_rate.high);
  CHECK(more.correct_rate.high - more.correct_rate.low < few.correct_rate.high - few.correct_rate.low);
}

TEST_CASE("The table has every figure", "[rollout][evaluation]") {
  const std::string text = ToText(Evaluate(Groups()));
  for (const char* name : {"Pass@1", "tasks solved", "compiled", "fast_1 over eager", "geometric mean over eager", "INFRA"}) {
    CHECK_THAT(text, ContainsSubstring(name));
  }
}

}  // namespace hone::rollout
