#include "trainer/simulate/simulation.h"

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_floating_point.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>
#include <cmath>
#include <map>
#include <set>

#include "base/file.h"
#include "base/journal.h"
#include "trainer/simulate/sim_report.h"

namespace hone::trainer {
namespace {

using Catch::Matchers::ContainsSubstring;
using Catch::Matchers::WithinAbs;

SimulationConfig Config(int64_t turns, int64_t steps, double corrupt = 0.2) {
  SimulationConfig config;
  config.turns = turns;
  config.steps = steps;
  config.corrupt = corrupt;
  return config;
}

/// Scores after training of the full configuration and of these ablations, by name, with one seed.
std::map<std::string, SimScore> Run(const SimulationConfig& config, std::set<std::string> names, uint64_t seed) {
  names.insert("full");
  const World world = SyntheticWorld(24, 3);
  std::map<std::string, SimScore> scores;
  for (const SimVariant& variant : Ablations(config)) {
    if (!names.contains(variant.name)) continue;
    const absl::StatusOr<SimResult> result = Simulate(world, variant.config, seed);
    INFO(variant.name << ": " << result.status());
    REQUIRE(result.ok());
    scores[variant.name] = result->after;
  }
  return scores;
}

TEST_CASE("Without PrimeEcho the first turn is learned more slowly, on every seed", "[simulate]") {
  for (const uint64_t seed : {1, 2, 3}) {
    auto scores = Run(Config(3, 100), {"without PrimeEcho"}, seed);
    CHECK(scores["full"].first_turn_correct > scores["without PrimeEcho"].first_turn_correct + 0.05);
  }
}

TEST_CASE("Without buffered retry the hard tasks stay unsolved in single-turn training, on every seed", "[simulate]") {
  for (const uint64_t seed : {1, 2, 3}) {
    auto scores = Run(Config(1, 400), {"without BDR"}, seed);
    CHECK(scores["without BDR"].pass_at_8 < 0.85);  // a quarter of the tasks is hard
    CHECK(scores["full"].pass_at_8 > scores["without BDR"].pass_at_8 + 0.1);
  }
}

TEST_CASE("Without contrast less speed is learned, and bucketed exemplars beat random ones, on every seed",
          "[simulate]") {
  for (const uint64_t seed : {1, 2, 3}) {
    auto scores = Run(Config(3, 120), {"without contrast", "random exemplars"}, seed);
    CHECK(scores["full"].log_speedup > scores["random exemplars"].log_speedup);
    CHECK(scores["random exemplars"].log_speedup > scores["without contrast"].log_speedup);
  }
}

TEST_CASE("Corrupt responses cost passes without MirrorPop; a signed mean in its place is as good as nothing",
          "[simulate]") {
  for (const uint64_t seed : {1, 2, 3}) {
    auto scores = Run(Config(1, 400, /*corrupt=*/0.4), {"without MirrorPop", "signed mean instead"}, seed);
    CHECK(scores["full"].pass_at_8 > scores["without MirrorPop"].pass_at_8);
    CHECK(scores["signed mean instead"].pass_at_8 == scores["without MirrorPop"].pass_at_8);  // it rejects none of them
  }
}

TEST_CASE("Equal seeds give equal runs", "[simulate]") {
  const World world = SyntheticWorld(8, 1);
  const SimResult a = *Simulate(world, Config(3, 20), 5);
  const SimResult b = *Simulate(world, Config(3, 20), 5);
  const SimResult c = *Simulate(world, Config(3, 20), 6);
  CHECK(a.after.first_turn_correct == b.after.first_turn_correct);
  CHECK(a.metrics == b.metrics);
  CHECK(a.after.first_turn_correct != c.after.first_turn_correct);
}

TEST_CASE("A score is computed from the table, not sampled", "[simulate]") {
  World world;
  SimTask& task = world.tasks.emplace_back();
  task.id = "one";
  rewards::Outcome pass;
  pass.status = VerdictStatus::kOk;
  pass.first_baseline = Baseline::kEager;
  pass.speedups[0] = {2, 2, 2};
  rewards::Outcome failure;
  failure.status = VerdictStatus::kCompile;
  task.candidates = {pass, failure};
  task.logits = {std::log(0.25), std::log(0.75)};
  SimulationConfig config = Config(1, 1);
  config.learning_rate = 0;
  const SimScore score = Simulate(world, config, 1)->after;
  CHECK_THAT(score.first_turn_correct, WithinAbs(0.25, 1e-12));
  CHECK_THAT(score.pass_at_8, WithinAbs(1 - std::pow(0.75, 8), 1e-12));
  CHECK_THAT(score.faster, WithinAbs(0.25, 1e-12));
  CHECK_THAT(score.log_speedup, WithinAbs(std::log(2), 1e-12));
}

TEST_CASE("A step in which a filter leaves nothing changes no weight and is counted", "[simulate]") {
  const World world = SyntheticWorld(8, 1);
  SimulationConfig config = Config(1, 10, /*corrupt=*/1);
  const SimResult result = *Simulate(world, config, 1);
  CHECK(result.skipped_steps == 10);
  CHECK(result.after.first_turn_correct == result.before.first_turn_correct);
  CHECK(result.metrics.at("filter/all_rejected") == 1);
}

TEST_CASE("A recorded world starts from how often each outcome was recorded, INFRA left out", "[simulate]") {
  const TempFolder folder = *TempFolder::Create("simulate");
  const std::string path = folder.path() + "/journal.jsonl.zst";
  {
    std::unique_ptr<JournalWriter> writer = *JournalWriter::Open(path);
    Group group;
    group.task_id = "mixed";
    for (const VerdictStatus status : {VerdictStatus::kCompile, VerdictStatus::kCompile, VerdictStatus::kCompile,
                                       VerdictStatus::kRuntime, VerdictStatus::kInfra}) {
      Turn turn;
      turn.verdict.status = status;
      group.episodes.push_back({"e", "mixed", {turn}, false});
    }
    REQUIRE(writer->Append(group).ok());
    group.task_id = "always the same";
    group.episodes.resize(2);
    REQUIRE(writer->Append(group).ok());
  }
  const absl::StatusOr<World> world = RecordedWorld({path}, {});
  INFO(world.status());
  REQUIRE(world.ok());
  REQUIRE(world->tasks.size() == 1);
  CHECK(world->tasks_left_out == 1);
  CHECK(world->tasks[0].candidates.size() == 2);
  CHECK_THAT(world->tasks[0].logits[0] - world->tasks[0].logits[1], WithinAbs(std::log(3), 1e-12));
}

TEST_CASE("A simulation is configured like everything else: strictly, with overrides and sweeps", "[simulate]") {
  CHECK(LoadSimulation("", {"retry.probability=0.3"})->retry.probability == 0.3);
  CHECK_THAT(std::string(LoadSimulation("", {"retry.probability=3"}).status().message()), ContainsSubstring("[0, 1]"));
  CHECK_THAT(std::string(LoadSimulation("", {"stpes=3"}).status().message()), ContainsSubstring("steps"));
  const std::vector<SimVariant> swept = *SweepSimulation("", {}, *rewards::ParseSweep("filters.chain.0.delta=0.1,0.2"));
  REQUIRE(swept.size() == 3);
  CHECK(swept[1].name == "delta=0.1");
}

TEST_CASE("The table shows differences seed by seed and says what it is not", "[simulate]") {
  const World world = SyntheticWorld(8, 1);
  const std::vector<VariantRuns> runs = *RunVariants(world, Ablations(Config(1, 5)), 2, 1);
  const std::string text = SimText(world, runs);
  CHECK_THAT(text, ContainsSubstring("without BDR") && ContainsSubstring("directions, not sizes"));
  const std::string csv = SimCsv(runs);
  CHECK(std::count(csv.begin(), csv.end(), '\n') == 1 + 7 * 2);
  CHECK_THAT(SimHtml(world, runs), ContainsSubstring("Learning curves"));
}

}  // namespace
}  // namespace hone::trainer
