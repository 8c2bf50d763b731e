#include "tests/support/catch_torch.h"

#include <string>

#include "base/config.h"
#include "cli/train/config.h"
#include "cli/train/phases.h"

namespace hone::cli {
namespace {

trainer::PolicyLossOptions Of(const std::string& rl) {
  TrainConfig config;
  REQUIRE(ConfigFile::Parse("rl: " + rl, "test", {}).value().Read(config).ok());
  return LossOf(config.rl);
}

TEST_CASE("Settings of the published methods are the losses that they are tested as", "[cli][train]") {
  const trainer::PolicyLossOptions grpo = Of("{clip_high: 0.2}");
  CHECK(grpo.objective == trainer::PolicyObjective::kClippedRatio);
  CHECK(grpo.aggregation == trainer::Aggregation::kSequenceMean);
  CHECK(grpo.eps_low == 0.2);
  CHECK(grpo.eps_high == 0.2);
  CHECK(grpo.kl_estimator == trainer::KlEstimator::kK3);
  const trainer::PolicyLossOptions dr_grpo = Of("{max_tokens: 700, loss: {aggregation: constant_length}}");
  CHECK(dr_grpo.aggregation == trainer::Aggregation::kConstantLength);
  CHECK(dr_grpo.constant_length == 700);
  CHECK(Of("{loss: {aggregation: constant_length, constant_length: 33}}").constant_length == 33);
  const trainer::PolicyLossOptions dapo = Of("{loss: {aggregation: token_mean}}");
  CHECK(dapo.aggregation == trainer::Aggregation::kTokenMean);
  CHECK(dapo.eps_high == 0.28);
  const trainer::PolicyLossOptions gspo = Of("{clip_low: 3.0e-4, clip_high: 4.0e-4, loss: {objective: sequence_ratio}}");
  CHECK(gspo.objective == trainer::PolicyObjective::kSequenceRatio);
  CHECK(gspo.eps_low == 3e-4);
  const trainer::PolicyLossOptions cispo = Of("{clip_low: 1, clip_high: 4, loss: {objective: cispo, aggregation: token_mean}}");
  CHECK(cispo.objective == trainer::PolicyObjective::kCispo);
  CHECK(cispo.eps_high == 4);
  CHECK(Of("{kl_coefficient: 0.1, loss: {kl_estimator: k1}}").kl_estimator == trainer::KlEstimator::kK1);
  CHECK(Of("{loss: {kl_estimator: k2, dual_clip: 3, entropy_coefficient: 0.01}}").kl_estimator == trainer::KlEstimator::kK2);
  CHECK(Of("{loss: {dual_clip: 3}}").dual_clip == 3);
  for (const auto& options : {grpo, dr_grpo, dapo, gspo, cispo}) CHECK(trainer::Validate(options).ok());
}

TEST_CASE("A loss that there is not is refused by its key", "[cli][train]") {
  TrainConfig config;
  const auto refused = [&](const std::string& rl) {
    return std::string(ConfigFile::Parse("rl: " + rl, "test", {}).value().Read(config).message());
  };
  CHECK_THAT(refused("{loss: {objective: ppo}}"), Catch::Matchers::ContainsSubstring("rl.loss.objective"));
  CHECK_THAT(refused("{loss: {dual_clip: 0.5}}"), Catch::Matchers::ContainsSubstring("dual_clip"));
}

}  // namespace
}  // namespace hone::cli
