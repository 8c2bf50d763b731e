#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_floating_point.hpp>

#include "rewards/terms/correct.h"
#include "rewards/terms/kevin.h"
#include "rewards/terms/milestones.h"
#include "rewards/terms/overlong.h"
#include "tests/rewards/outcomes.h"

namespace hone::rewards {
namespace {

using Catch::Matchers::WithinAbs;

TEST_CASE("Plain correctness gives one number for a pass and one for a failure", "[rewards]") {
  CorrectnessScore score;
  CHECK(score.Score(Passed(0.1)) == 1.0);
  CHECK(score.Score(Failed(VerdictStatus::kIncorrect, 0.99)) == 0.0);
  score.fail = -1;
  CHECK(score.Score(Failed(VerdictStatus::kTimeout)) == -1.0);
}

TEST_CASE("Kevin's score is 0.3 plus the speedup for a pass", "[rewards]") {
  CHECK_THAT(*KevinScore().Score(Passed(2)), WithinAbs(2.3, 1e-12));
  CHECK(KevinScore().Score(Failed(VerdictStatus::kCompile)) == 0.0);
}

TEST_CASE("Milestones are reached by saving 5 % of eager's and then of torch.compile's time", "[rewards]") {
  const auto timed = [](double eager, double compiled) {
    Outcome outcome = Passed(eager);
    outcome.speedups[static_cast<int>(Baseline::kCompile)] = {compiled, compiled, compiled};
    return outcome;
  };
  const MilestoneScore score;
  CHECK(score.Score(Failed(VerdictStatus::kOom)) == -1.0);
  CHECK(score.Score(timed(1.0, 2.0)) == 1.0);   // the second milestone needs the first
  CHECK(score.Score(timed(1.05, 1.0)) == 1.0);  // 1 - 1/1.05 = 0.048 saved
  CHECK(score.Score(timed(1.06, 1.0)) == 2.0);  // 1 - 1/1.06 = 0.057 saved
  CHECK(score.Score(timed(1.06, 1.06)) == 3.0);
  CHECK_FALSE(score.Timed(Passed(9)));  // torch.compile was not timed
  CHECK(score.Score(Passed(9)) == 2.0);
}

TEST_CASE("The overlong penalty falls linearly over the cache to -1", "[rewards]") {
  OverlongPenalty penalty;
  penalty.max_tokens = 1000;
  penalty.cache_tokens = 200;
  const auto with_tokens = [](int64_t tokens) {
    Outcome outcome = Passed(1);
    outcome.response_tokens = tokens;
    return outcome;
  };
  CHECK(penalty.Score(with_tokens(0)) == 0.0);
  CHECK(penalty.Score(with_tokens(800)) == 0.0);
  CHECK(penalty.Score(with_tokens(850)) == -0.25);  // (800 - 850) / 200
  CHECK(penalty.Score(with_tokens(1000)) == -1.0);
  CHECK(penalty.Score(with_tokens(5000)) == -1.0);
  Outcome cut = with_tokens(10);
  cut.truncated = true;
  CHECK(penalty.Score(cut) == -1.0);
  penalty.cache_tokens = 1001;
  CHECK_FALSE(penalty.Validate().ok());
}

TEST_CASE("The overlong filter gives no sample for a cut response, right or wrong, and nothing for a whole one", "[rewards]") {
  const OverlongFilter filter;
  for (Outcome outcome : {Passed(3), Failed(VerdictStatus::kCompile)}) {
    CHECK(filter.Score(outcome) == 0.0);
    outcome.truncated = true;
    CHECK(filter.Score(outcome) == std::nullopt);
  }
}

}  // namespace
}  // namespace hone::rewards
