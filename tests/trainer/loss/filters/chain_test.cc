#include "trainer/loss/filters/chain.h"

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_floating_point.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>
#include <cmath>
#include <limits>

#include "tests/trainer/loss/filters/batch.h"
#include "trainer/loss/filters/sequence_masks.h"
#include "trainer/loss/filters/token_weights.h"

namespace hone::trainer {
namespace {

using Catch::Matchers::ContainsSubstring;
using Catch::Matchers::WithinAbs;
using Catch::Matchers::WithinRel;

template <class... FilterTypes>
FilterChainConfig ChainOf(FilterTypes... filters) {
  FilterChainConfig config;
  config.chain = {FilterConfig{rewards::Choice<Filter>::Of(filters)}...};
  return config;
}

FilterDecision Run(const FilterChainConfig& config, const TestBatch& batch) {
  FilterDecision decision = FilterDecision::KeepAll(static_cast<int64_t>(batch.train.size()));
  REQUIRE(MakeChain(config)(batch.View(), decision).ok());
  return decision;
}

TEST_CASE("MirrorPop alone is the default chain", "[filters]") {
  TestBatch batch;
  batch.Add({0.5f, -0.5f});
  CHECK(Run(FilterChainConfig{}, batch).weight == std::vector<float>{0, 0});
}

TEST_CASE("Filters of a chain multiply, and what one dropped no later one brings back", "[filters]") {
  TestBatch batch;
  batch.Add({0.5f, -0.5f});  // MirrorPop drops it, TIS alone would weigh it
  batch.Add({0.04f, -0.04f});
  const FilterDecision decision = Run(ChainOf(MirrorPop(), Tis()), batch);
  CHECK(decision.weight[0] == 0);
  CHECK(decision.weight[1] == 0);
  CHECK_THAT(decision.weight[2], WithinRel(std::exp(0.04), 1e-6));
  const FilterDecision other_order = Run(ChainOf(Tis(), MirrorPop()), batch);
  CHECK(other_order.weight == decision.weight);
}

TEST_CASE("The rejected share and the effective sample size are those of the masked-in tokens", "[filters]") {
  TestBatch batch;
  batch.Add({0.5f, -0.5f, 0.5f});  // rejected
  batch.Add({0, 0, 0, 0, 0, 0});   // kept; one token is not trained on
  batch.mask[8] = 0;
  FilterDecision decision = Run(ChainOf(MirrorPop()), batch);
  CHECK(decision.stats["filter/rejected_tokens"] == 3.0 / 8);
  CHECK(decision.stats["filter/rejected_sequences"] == 0.5);
  CHECK(decision.stats["mirrorpop/rejected_tokens"] == 3.0 / 8);
  CHECK_THAT(decision.stats["filter/ess"], WithinAbs(5.0 / 8, 1e-12));  // five equal weights of eight tokens
  CHECK(decision.stats["filter/all_rejected"] == 0);
  TestBatch weighted;
  weighted.Add({std::log(2.0f), std::log(0.5f)});
  // Weights 2 and 0.5: (2.5)^2 / (2 * 4.25) = 0.7353
  CHECK_THAT(Run(ChainOf(Tis()), weighted).stats["filter/ess"], WithinAbs(0.735294, 1e-5));
}

TEST_CASE("A batch of which nothing is left says so, and its figures are finite", "[filters]") {
  TestBatch batch;
  batch.Add({0.5f, -0.5f});
  FilterDecision decision = Run(FilterChainConfig{}, batch);
  CHECK(NothingLeft(batch.View(), decision));
  CHECK(decision.stats["filter/all_rejected"] == 1);
  CHECK(decision.stats["filter/ess"] == 0);
  FilterChainConfig normalised;
  normalised.normalise = true;
  decision = Run(normalised, batch);
  CHECK(decision.weight == std::vector<float>{0, 0});
  for (const auto& [name, value] : decision.stats) CHECK(std::isfinite(value));
}

TEST_CASE("An empty batch has nothing left and breaks nothing", "[filters]") {
  const TestBatch empty;
  FilterDecision decision = Run(FilterChainConfig{}, empty);
  CHECK(NothingLeft(empty.View(), decision));
  for (const auto& [name, value] : decision.stats) CHECK(std::isfinite(value));
}

TEST_CASE("Normalised weights have a mean of one over the counted tokens", "[filters]") {
  TestBatch batch;
  batch.Add({std::log(2.0f), std::log(0.5f)});  // weights 2 and 0.5, mean 1.25
  FilterChainConfig config = ChainOf(Tis());
  config.normalise = true;
  const FilterDecision decision = Run(config, batch);
  CHECK_THAT(decision.weight[0], WithinRel(1.6, 1e-6));
  CHECK_THAT(decision.weight[1], WithinRel(0.4, 1e-6));
}

TEST_CASE("The mismatch figures are those of the log-ratios, whatever the filters do", "[filters]") {
  TestBatch batch;
  batch.Add({std::log(4.0f), -0.1f, 0.1f});
  batch.Add({0, std::numeric_limits<float>::quiet_NaN()});
  FilterChainConfig none;
  none.chain.clear();
  FilterDecision decision = Run(none, batch);
  CHECK_THAT(decision.stats["mismatch/mean_abs_log_ratio"], WithinAbs((std::log(4) + 0.2) / 4, 1e-6));
  // k3: 4 - ln 4 - 1 = 1.613706, exp(-0.1) + 0.1 - 1 = 0.004837, exp(0.1) - 0.1 - 1 = 0.005171, 0
  CHECK_THAT(decision.stats["mismatch/mean_k3"], WithinAbs((1.613706 + 0.004837 + 0.005171) / 4, 1e-6));
  CHECK_THAT(decision.stats["mismatch/max_ratio"], WithinRel(4.0, 1e-6));
  CHECK(decision.stats["mismatch/out_of_band"] == 0.25);
  CHECK(decision.stats["mismatch/not_finite"] == 0.2);
}

TEST_CASE("A batch whose parts do not fit together is refused with the lengths", "[filters]") {
  TestBatch batch;
  batch.Add({0, 0});
  const LossFilter chain = MakeChain({});
  FilterDecision decision = FilterDecision::KeepAll(2);
  TestBatch bad = batch;
  bad.rollout.pop_back();
  CHECK_THAT(std::string(chain(bad.View(), decision).message()), ContainsSubstring("1 of the rollout"));
  bad = batch;
  bad.offsets = {0, 1};
  CHECK(chain(bad.View(), decision).code() == absl::StatusCode::kInvalidArgument);
  bad = batch;
  bad.offsets = {0, 2, 1, 2};
  bad.advantages = {1, 1, 1};
  CHECK(chain(bad.View(), decision).code() == absl::StatusCode::kInvalidArgument);
  bad = batch;
  bad.advantages.clear();
  CHECK(chain(bad.View(), decision).code() == absl::StatusCode::kInvalidArgument);
  FilterDecision short_decision = FilterDecision::KeepAll(1);
  CHECK(chain(batch.View(), short_decision).code() == absl::StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace hone::trainer
