#include "base/config.h"

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>
#include <string>

#include "rewards/compose/pipeline.h"
#include "rewards/terms/kernelgym.h"
#include "rewards/terms/musacoder.h"
#include "rewards/turns/primeecho.h"

namespace hone::rewards {
namespace {

using Catch::Matchers::ContainsSubstring;

absl::StatusOr<PipelineConfig> Read(const std::string& text, const std::vector<std::string>& overrides = {}) {
  absl::StatusOr<ConfigFile> file = ConfigFile::Parse(text, "train.yaml", overrides);
  if (!file.ok()) return file.status();
  PipelineConfig config;
  if (absl::Status status = file->Read(config); !status.ok()) return status;
  return config;
}

std::string ErrorOf(const std::string& text) {
  const absl::StatusOr<PipelineConfig> config = Read(text);
  REQUIRE_FALSE(config.ok());
  CHECK(config.status().code() == absl::StatusCode::kInvalidArgument);
  return std::string(config.status().message());
}

TEST_CASE("A pipeline is composed from YAML with parameters, weights, turns, smoothing and advantage", "[rewards]") {
  const absl::StatusOr<PipelineConfig> config = Read(R"(
terms:
  - {name: musacoder, weight: 2, lambda: 0.25, nu_max: 8, baseline: compile, estimate: median}
  - {name: overlong, max_tokens: 1000, cache_tokens: 100}
turns: {name: primeecho, alpha: 0.5, early_bonus: [0.3]}
smoothing: {population: batch, k: 2}
advantage: {name: rloo, compare: prompt}
)");
  REQUIRE(config.ok());
  REQUIRE(config->terms.size() == 2);
  CHECK(config->terms[0].weight == 2);
  const auto& score = dynamic_cast<const MusaCoderScore&>(*config->terms[0].term.part);
  CHECK(score.lambda == 0.25);
  CHECK(score.nu_max == 8);
  CHECK(score.speed.baseline == Baseline::kCompile);
  CHECK(score.speed.median);
  const auto& echo = dynamic_cast<const PrimeEcho&>(*config->turns.rule.part);
  CHECK(echo.alpha == 0.5);
  CHECK(echo.early_bonus == std::vector<double>{0.3});
  CHECK(config->smoothing.population == "batch");
  CHECK(config->smoothing.k == 2);
  CHECK(config->advantage.kind.name == "rloo");
  CHECK(config->advantage.compare == "prompt");
}

TEST_CASE("What is not named keeps its default", "[rewards]") {
  const absl::StatusOr<PipelineConfig> config = Read("turns: {alpha: 0.9}\n");
  REQUIRE(config.ok());
  CHECK(config->terms[0].term.name == "musacoder");
  CHECK(dynamic_cast<const PrimeEcho&>(*config->turns.rule.part).alpha == 0.9);
}

TEST_CASE("The written configuration reads back to the same pipeline", "[rewards]") {
  PipelineConfig config;
  KernelGymScore gym;
  gym.reject = false;
  gym.speed.baseline = Baseline::kGraph;
  config.terms.push_back({Choice<Term>::Of(gym), -0.5});
  config.advantage.kind = Choice<Advantage>("trloo");
  const std::string text = ToYaml(config);
  const absl::StatusOr<PipelineConfig> again = Read(text);
  REQUIRE(again.ok());
  CHECK(ToYaml(*again) == text);
  CHECK(again->terms[1].weight == -0.5);
  CHECK_FALSE(dynamic_cast<const KernelGymScore&>(*again->terms[1].term.part).reject);
}

TEST_CASE("An override reaches a part's parameter", "[rewards]") {
  const absl::StatusOr<PipelineConfig> config = Read("turns: {name: primeecho}\n", {"turns.alpha=0.25"});
  REQUIRE(config.ok());
  CHECK(dynamic_cast<const PrimeEcho&>(*config->turns.rule.part).alpha == 0.25);
}

TEST_CASE("An unknown term names the nearest one, with file and line", "[rewards]") {
  const std::string error = ErrorOf("terms:\n  - {name: musacodr}\n");
  CHECK_THAT(error, ContainsSubstring("train.yaml:2"));
  CHECK_THAT(error, ContainsSubstring("musacodr"));
  CHECK_THAT(error, ContainsSubstring("musacoder"));
}

TEST_CASE("A weight that is not a number, alpha outside [0, 1] and unknown parameters are errors", "[rewards]") {
  CHECK_THAT(ErrorOf("terms: [{name: musacoder, weight: .nan}]\n"), ContainsSubstring("weight"));
  CHECK_THAT(ErrorOf("turns: {alpha: 1.5}\n"), ContainsSubstring("alpha"));
  CHECK_THAT(ErrorOf("turns: {alpha: -0.1}\n"), ContainsSubstring("[0, 1]"));
  CHECK_THAT(ErrorOf("terms: [{name: musacoder, lamda: 1}]\n"), ContainsSubstring("lambda"));
  CHECK_THAT(ErrorOf("terms: [{name: correct, lambda: 1}]\n"), ContainsSubstring("lambda"));  // not a parameter of it
  CHECK_THAT(ErrorOf("terms: []\n"), ContainsSubstring("at least one term"));
  CHECK_THAT(ErrorOf("advantage: {name: grpo, name: rloo}\n"), ContainsSubstring("name"));
}

TEST_CASE("What bounds cannot say is checked too", "[rewards]") {
  CHECK_THAT(ErrorOf("terms: [{name: overlong, max_tokens: 10, cache_tokens: 20}]\n"), ContainsSubstring("cache_tokens 20"));
  CHECK_THAT(ErrorOf("terms: [{name: log_speed, low: 3, high: 1}]\n"), ContainsSubstring("low 3"));
}

}  // namespace
}  // namespace hone::rewards
