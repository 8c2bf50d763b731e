#include "rewards/compose/pipeline.h"

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_floating_point.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>
#include <cmath>
#include <random>

#include "rewards/advantage/group.h"
#include "rewards/terms/log_speed.h"
#include "rewards/terms/musacoder.h"
#include "rewards/turns/discounted.h"
#include "rewards/turns/primeecho.h"
#include "tests/rewards/outcomes.h"

namespace hone::rewards {
namespace {

using Catch::Matchers::ContainsSubstring;
using Catch::Matchers::WithinAbs;

Pipeline Make(PipelineConfig config = {}) {
  absl::StatusOr<Pipeline> pipeline = Pipeline::Create(std::move(config));
  REQUIRE(pipeline.ok());
  return *std::move(pipeline);
}

std::vector<double> AdvantagesOf(const GroupCredit& group) {
  std::vector<double> advantages;
  for (const EpisodeCredit& episode : group.episodes) {
    for (const TurnCredit& turn : episode.turns) {
      if (turn.trained()) advantages.push_back(turn.advantage);
    }
  }
  return advantages;
}

TEST_CASE("The default pipeline is MusaCoder's: its score, PrimeEcho and GRPO", "[rewards]") {
  const PipelineConfig config;
  REQUIRE(config.terms.size() == 1);
  CHECK(config.terms[0].term.name == "musacoder");
  CHECK(config.turns.rule.name == "primeecho");
  CHECK(config.advantage.kind.name == "grpo");
  const GroupOutcomes group = {{Passed(3)}, {Failed(VerdictStatus::kCompile)}};
  const BatchCredit credit = Make().Score({group});
  // 1 + 0.5 * 2 + 0.15 = 2.15 and -1: mean 0.575, population std 1.575
  CHECK_THAT(*credit.groups[0].episodes[0].turns[0].reward, WithinAbs(2.15, 1e-12));
  CHECK(credit.groups[0].episodes[1].turns[0].reward == -1.0);
  CHECK_THAT(credit.groups[0].episodes[0].turns[0].advantage, WithinAbs(1, 1e-6));
  CHECK_THAT(credit.groups[0].episodes[1].turns[0].advantage, WithinAbs(-1, 1e-6));
  CHECK(credit.samples == 2);
}

TEST_CASE("Terms are summed with their weights, and one term without a sample leaves none", "[rewards]") {
  PipelineConfig config;
  config.terms = {WeightedTerm{Choice<Term>::Of(MusaCoderScore()), 2},
                  WeightedTerm{Choice<Term>::Of(LogSpeedScore()), -1}};
  const Pipeline pipeline = Make(config);
  const BatchCredit credit = pipeline.Score({GroupOutcomes{{Passed(2)}, {Infra()}}});
  CHECK(credit.groups[0].episodes[0].turns[0].score == 2 * 1.5 - 1.25);
  CHECK(credit.groups[0].episodes[1].turns[0].score == std::nullopt);
  CHECK(credit.untimed_passes == 0);
}

TEST_CASE("Parts are the terms' weighted means over scored turns, and add up to the mean score", "[rewards]") {
  PipelineConfig config;
  config.terms = {{Choice<Term>("correct"), 1.0}, {Choice<Term>("correct"), 2.0}};
  Group group;
  for (const VerdictStatus status : {VerdictStatus::kOk, VerdictStatus::kOk, VerdictStatus::kIncorrect, VerdictStatus::kInfra}) {
    Episode episode;
    episode.turns.emplace_back();
    episode.turns[0].verdict.status = status;
    group.episodes.push_back(episode);
  }
  const Pipeline pipeline = Make(config);
  const std::map<std::string, double> parts = pipeline.PartMeans({&group, 1});
  double sum = 0;
  const BatchCredit credit = pipeline.Score({&group, 1});
  for (size_t e = 0; e < 3; ++e) sum += *credit.groups[0].episodes[e].turns[0].score;
  REQUIRE(parts.size() == 2);
  CHECK_THAT(parts.at("correct#2"), WithinAbs(2 * parts.at("correct"), 1e-12));
  CHECK_THAT(parts.at("correct") + parts.at("correct#2"), WithinAbs(sum / 3, 1e-12));
  CHECK(parts.at("correct") != 0);
  CHECK(pipeline.PartMeans({}).empty());
}

TEST_CASE("A pass without a timing that some term reads is counted and keeps its reward for being right", "[rewards]") {
  PipelineConfig config;
  MusaCoderScore other_baseline;
  other_baseline.speed.baseline = Baseline::kGraph;
  config.terms[0].term = Choice<Term>::Of(other_baseline);
  const BatchCredit credit = Make(config).Score({GroupOutcomes{{Passed(2)}, {Failed(VerdictStatus::kCompile)}}});
  CHECK(credit.groups[0].episodes[0].turns[0].score == 1.0);
  CHECK(credit.untimed_passes == 1);
  CHECK(Make(config).NeededBaselines() == std::vector<Baseline>{Baseline::kGraph});
}

TEST_CASE("An INFRA storm changes no advantage of other samples", "[rewards]") {
  std::mt19937_64 random(3);
  for (const Registration<Advantage>& entry : Advantage::Registry()) {
    PipelineConfig config;
    config.advantage.kind = Choice<Advantage>(entry.name);
    const Pipeline pipeline = Make(config);
    for (int round = 0; round < 50; ++round) {
      std::vector<GroupOutcomes> calm(3);
      std::vector<GroupOutcomes> storm(3);
      for (size_t g = 0; g < calm.size(); ++g) {
        for (int i = 0; i < 6; ++i) {
          const EpisodeOutcomes episode = {random() % 2 ? Passed(0.5 + random() % 4) : Failed(VerdictStatus::kRuntime)};
          calm[g].push_back(episode);
          while (random() % 2) storm[g].push_back({Infra()});
          while (random() % 4 == 0) storm[g].push_back({episode[0], Infra()});  // our fault in the second turn
          storm[g].push_back(episode);
        }
      }
      storm.push_back({{Infra()}, {Infra()}});  // a group of nothing else
      const BatchCredit calm_credit = pipeline.Score(calm);
      const BatchCredit storm_credit = pipeline.Score(storm);
      for (size_t g = 0; g < calm.size(); ++g) {
        CHECK(AdvantagesOf(calm_credit.groups[g]) == AdvantagesOf(storm_credit.groups[g]));  // to the bit
      }
      CHECK(storm_credit.samples == calm_credit.samples);
      CHECK(AdvantagesOf(storm_credit.groups[3]).empty());
      CHECK_FALSE(storm_credit.groups[3].signal);
    }
  }
}

TEST_CASE("A whole batch of INFRA, empty episodes and empty groups is credited nothing", "[rewards]") {
  const BatchCredit credit = Make().Score({GroupOutcomes{{Infra()}, {}}, GroupOutcomes{}});
  CHECK(credit.samples == 0);
  CHECK(credit.episodes_unscored == 2);
  CHECK(credit.zero_signal_groups == 2);
}

TEST_CASE("Turn-level comparison keeps turns of different index apart", "[rewards]") {
  PipelineConfig config;
  DiscountedReturn own_score;
  own_score.gamma = 0;
  config.turns.rule = Choice<TurnRule>::Of(own_score);
  config.advantage.kind = Choice<Advantage>::Of(DrGrpo());
  // Turn 1: -1 and 1, mean 0. Turn 2: 1 alone.
  const GroupOutcomes group = {{Failed(VerdictStatus::kCompile), Passed(1)}, {Passed(1)}};
  config.advantage.compare = "turn";
  CHECK(AdvantagesOf(Make(config).Score({group}).groups[0]) == std::vector<double>{-1, 0, 1});
  config.advantage.compare = "prompt";  // -1, 1, 1: mean 1/3
  const std::vector<double> pooled = AdvantagesOf(Make(config).Score({group}).groups[0]);
  CHECK_THAT(pooled[0], WithinAbs(-4.0 / 3, 1e-12));
  CHECK_THAT(pooled[1], WithinAbs(2.0 / 3, 1e-12));
  CHECK_THAT(pooled[2], WithinAbs(2.0 / 3, 1e-12));
}

TEST_CASE("Smoothing normalises by its population and clips at k", "[rewards]") {
  PipelineConfig config;
  config.advantage.kind = Choice<Advantage>::Of(DrGrpo());
  config.turns.rule = Choice<TurnRule>("single_score");
  config.smoothing.population = "fixed";
  config.smoothing.mean = 1;
  config.smoothing.std = 0.5;
  // Scores 1, 1.5, 3 become 0, 1, clip(4, 1.5): 0, 1, 1.5, mean 5/6.
  const GroupOutcomes group = {{Passed(1)}, {Passed(2)}, {Passed(9)}};
  const std::vector<double> a = AdvantagesOf(Make(config).Score({group}).groups[0]);
  CHECK_THAT(a[0], WithinAbs(-5.0 / 6, 1e-12));
  CHECK_THAT(a[1], WithinAbs(1.0 / 6, 1e-12));
  CHECK_THAT(a[2], WithinAbs(4.0 / 6, 1e-12));
  config.smoothing.population = "group";
  const GroupOutcomes equal = {{Passed(9)}, {Passed(9)}, {Passed(9)}};
  CHECK(AdvantagesOf(Make(config).Score({equal}).groups[0]) == std::vector<double>{0, 0, 0});
}

TEST_CASE("No mix of verdicts makes a reward or an advantage NaN, under any combination of parts", "[rewards]") {
  std::mt19937_64 random(5);
  for (const Registration<TurnRule>& rule : TurnRule::Registry()) {
    for (const Registration<Advantage>& kind : Advantage::Registry()) {
      for (const char* population : {"none", "group", "batch", "fixed"}) {
        PipelineConfig config;
        config.turns.rule = Choice<TurnRule>(rule.name);
        config.advantage.kind = Choice<Advantage>(kind.name);
        config.smoothing.population = population;
        const Pipeline pipeline = Make(config);
        std::vector<GroupOutcomes> groups(4);
        for (GroupOutcomes& group : groups) {
          for (size_t i = random() % 5; i > 0; --i) {
            EpisodeOutcomes& episode = group.emplace_back();
            for (size_t k = random() % 4; k > 0; --k) {
              const VerdictStatus status = kAllStatuses[random() % std::size(kAllStatuses)];
              episode.push_back(status == VerdictStatus::kOk ? Passed(random() % 9 * 0.5) : Failed(status, 0.5));
            }
          }
        }
        const BatchCredit credit = pipeline.Score(groups);
        for (const GroupCredit& group : credit.groups) {
          for (const double advantage : AdvantagesOf(group)) CHECK(std::isfinite(advantage));
        }
      }
    }
  }
}

TEST_CASE("PrimeEcho masks every response but the first, Kevin's return none, INFRA all", "[rewards]") {
  Group group;
  Episode& episode = group.episodes.emplace_back();
  for (const VerdictStatus status : {VerdictStatus::kCompile, VerdictStatus::kRuntime}) {
    Turn turn;
    turn.response_ids = {7, 8, 9};
    turn.verdict.status = status;
    episode.turns.push_back(turn);
  }
  using Mask = std::vector<std::vector<uint8_t>>;
  PipelineConfig kevin;
  kevin.turns.rule = Choice<TurnRule>("discounted_return");
  const auto mask_of = [&](const Pipeline& pipeline) {
    return GradientMask(episode, pipeline.Score({group}).groups[0].episodes[0]);
  };
  CHECK(mask_of(Make()) == Mask{{1, 1, 1}, {0, 0, 0}});
  CHECK(mask_of(Make(kevin)) == Mask{{1, 1, 1}, {1, 1, 1}});
  episode.turns[1].verdict.status = VerdictStatus::kInfra;
  CHECK(mask_of(Make()) == Mask{{0, 0, 0}, {0, 0, 0}});
}

TEST_CASE("A pipeline without terms is refused", "[rewards]") {
  PipelineConfig config;
  config.terms.clear();
  CHECK(Pipeline::Create(config).status().code() == absl::StatusCode::kInvalidArgument);
}

TEST_CASE("A configuration is a value: changing a copy leaves the original alone", "[rewards]") {
  PipelineConfig original;
  PipelineConfig copy = original;
  copy.terms[0].term = Choice<Term>::Of(LogSpeedScore());
  CHECK(original.terms[0].term.name == "musacoder");
  CHECK_THAT(Make(original).InWords(), ContainsSubstring("0.75 * s_1"));
}

}  // namespace
}  // namespace hone::rewards
