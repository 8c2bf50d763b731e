#include "tests/support/catch_torch.h"

#include <cmath>
#include <limits>
#include <functional>

#include "trainer/loss/policy_loss.h"

namespace hone::trainer {
namespace {

using Catch::Matchers::WithinAbs;

PolicyLossInput Input(std::vector<float> log_probs, std::vector<float> old, std::vector<float> advantages,
                      std::vector<float> coefficients, std::vector<int64_t> offsets) {
  PolicyLossInput in;
  in.log_probs = at::tensor(log_probs, at::kFloat).requires_grad_(true);
  in.old_log_probs = at::tensor(old, at::kFloat);
  in.advantages = at::tensor(advantages, at::kFloat);
  in.coefficients = at::tensor(coefficients, at::kFloat);
  in.weights = at::ones_like(in.old_log_probs);
  in.offsets = std::move(offsets);
  return in;
}

std::vector<float> Gradient(const PolicyLossInput& in, const PolicyLossOutput& out) {
  out.loss.backward();
  const at::Tensor g = in.log_probs.grad();
  return {g.const_data_ptr<float>(), g.const_data_ptr<float>() + g.numel()};
}

TEST_CASE("GRPO's loss and gradient on an example worked by hand", "[trainer][loss]") {
  // Ratios 1.5, 0.5, 1.1, 0.7 with advantages +1, +1, -1, -1 and clip range [0.8, 1.2], each token counting 1/4:
  //   min(1.5, 1.2) = 1.2 clipped; min(0.5, 0.8) = 0.5; min(-1.1, -1.1) = -1.1; min(-0.7, -0.8) = -0.8 clipped
  //   loss = -(1.2 + 0.5 - 1.1 - 0.8) / 4 = 0.05; gradients -A r / 4 where not clipped.
  PolicyLossOptions options;
  const PolicyLossInput in = Input({std::log(1.5f), std::log(0.5f), std::log(1.1f), std::log(0.7f)}, {0, 0, 0, 0}, {1, 1, -1, -1},
                                   {0.25, 0.25, 0.25, 0.25}, {0, 2, 4});
  const PolicyLossOutput out = PolicyLoss(in, options);
  CHECK_THAT(out.loss.item<double>(), WithinAbs(0.05, 1e-6));
  CHECK(out.sums.at("clipped") == 2);
  CHECK_THAT(out.sums.at("ratio"), WithinAbs(3.8, 1e-5));
  const std::vector<float> g = Gradient(in, out);
  CHECK(g[0] == 0);
  CHECK_THAT(g[1], WithinAbs(-0.125, 1e-6));
  CHECK_THAT(g[2], WithinAbs(0.275, 1e-6));
  CHECK(g[3] == 0);
}

TEST_CASE("The dual clip bounds the loss of a negative advantage", "[trainer][loss]") {
  PolicyLossOptions options;
  options.dual_clip = 3;
  const PolicyLossInput in = Input({std::log(10.0f)}, {0}, {-2}, {1}, {0, 1});
  const PolicyLossOutput out = PolicyLoss(in, options);
  CHECK_THAT(out.loss.item<double>(), WithinAbs(6, 1e-5));  // -c A, not -r A = 20
  CHECK(Gradient(in, out)[0] == 0);
}

TEST_CASE("GSPO clips by the sequence's geometric mean ratio, and every token shares its gradient", "[trainer][loss]") {
  // Log-ratios 0.3 and -0.1: mean 0.1, s = e^0.1 = 1.10517 inside [0.8, 1.2]. A = 2, each token counts 1/2: loss -s A.
  PolicyLossOptions options;
  options.objective = PolicyObjective::kSequenceRatio;
  const PolicyLossInput in = Input({0.3f, -0.1f}, {0, 0}, {2, 2}, {0.5, 0.5}, {0, 2});
  const PolicyLossOutput out = PolicyLoss(in, options);
  CHECK_THAT(out.loss.item<double>(), WithinAbs(-2.2103418, 1e-5));
  const std::vector<float> g = Gradient(in, out);
  CHECK_THAT(g[0], WithinAbs(-1.1051709, 1e-5));  // d(-2 s)/d logp_t = -2 s / 2
  CHECK_THAT(g[1], WithinAbs(-1.1051709, 1e-5));
}

TEST_CASE("CISPO weights the log-prob by the clipped ratio without a gradient through it", "[trainer][loss]") {
  PolicyLossOptions options;
  options.objective = PolicyObjective::kCispo;
  options.eps_low = 1;
  options.eps_high = 4;
  const PolicyLossInput in = Input({std::log(0.5f), -1.0f}, {0, -1 - std::log(7.0f)}, {1, 1}, {1, 1}, {0, 2});
  const std::vector<float> g = Gradient(in, PolicyLoss(in, options));
  CHECK_THAT(g[0], WithinAbs(-0.5, 1e-6));
  CHECK_THAT(g[1], WithinAbs(-5.0, 1e-5));  // ratio 7 clipped to 5, gradient kept
}

TEST_CASE("KL estimators have their published values", "[trainer][loss]") {
  // log pi = -1, log reference = -1.5: d = -0.5.
  const double wanted[] = {0.5, 0.125, std::exp(-0.5) + 0.5 - 1};
  for (int k = 0; k < 3; ++k) {
    PolicyLossOptions options;
    options.kl_estimator = static_cast<KlEstimator>(k);
    options.kl_coefficient = 2;
    PolicyLossInput in = Input({-1}, {-1}, {0}, {0.5}, {0, 1});
    in.reference_log_probs = at::tensor({-1.5f}, at::kFloat);
    const PolicyLossOutput out = PolicyLoss(in, options);
    CHECK_THAT(out.loss.item<double>(), WithinAbs(wanted[k], 1e-6));  // 2 * 0.5
    CHECK_THAT(out.sums.at("kl"), WithinAbs(wanted[k], 1e-6));
  }
}

TEST_CASE("Every objective's gradient is the slope of its loss", "[trainer][loss]") {
  const std::vector<float> base{-0.9f, -2.1f, -0.3f, -1.4f, -0.8f}, old{-1.0f, -2.0f, -0.35f, -1.5f, -0.7f};
  for (PolicyObjective objective : {PolicyObjective::kClippedRatio, PolicyObjective::kSequenceRatio}) {
    PolicyLossOptions options;
    options.objective = objective;
    options.kl_coefficient = 0.3;
    options.entropy_coefficient = 0;
    const auto make = [&](const at::Tensor& log_probs) {
      PolicyLossInput in = Input(base, old, {1, 1, -0.5, -0.5, -0.5}, {0.2, 0.1, 0.3, 0.2, 0.2}, {0, 2, 5});
      for (at::Tensor* t : {&in.old_log_probs, &in.advantages, &in.coefficients, &in.weights}) *t = t->to(at::kDouble);
      in.log_probs = log_probs;
      in.reference_log_probs = in.old_log_probs - 0.2;
      return PolicyLoss(in, options).loss;
    };
    const at::Tensor x = at::tensor(base, at::kFloat).to(at::kDouble).requires_grad_(true);
    make(x).backward();
    for (int64_t i = 0; i < 5; ++i) {
      const double step = 1e-6;
      at::Tensor up = x.detach().clone(), down = x.detach().clone();
      up[i] += step;
      down[i] -= step;
      CHECK_THAT(x.grad()[i].item<double>(), WithinAbs((make(up) - make(down)).item<double>() / (2 * step), 1e-7));
    }
  }
}

TEST_CASE("A token without weight leaves no trace in any gradient, whatever its log-ratio", "[trainer][loss]") {
  for (float poison : {std::numeric_limits<float>::infinity(), std::numeric_limits<float>::quiet_NaN()}) {
    for (PolicyObjective objective : {PolicyObjective::kClippedRatio, PolicyObjective::kSequenceRatio, PolicyObjective::kCispo}) {
      PolicyLossOptions options;
      options.objective = objective;
      PolicyLossInput in = Input({-1, -2, -3}, {-1.1f, poison, -2.9f}, {1, 1, 1}, {1, 1, 1}, {0, 3});
      in.weights = at::tensor({1.0f, 0.0f, 1.0f}, at::kFloat);
      const PolicyLossInput without = Input({-1, -3}, {-1.1f, -2.9f}, {1, 1}, {1, 1}, {0, 2});
      const std::vector<float> g = Gradient(in, PolicyLoss(in, options)), w = Gradient(without, PolicyLoss(without, options));
      CHECK(g == std::vector<float>{w[0], 0.0f, w[1]});
    }
  }
}

TEST_CASE("Token shares by aggregation, worked by hand", "[trainer][loss]") {
  const std::vector<uint8_t> counted{1, 1, 0, 1, 0, 0};
  const std::vector<int64_t> offsets{0, 3, 4, 6};  // two counted of three, one of one, none of two
  CHECK(TokenCoefficients(counted, offsets, Aggregation::kTokenMean, 0, CountTotals(counted, offsets)) ==
        std::vector<double>{1.0 / 3, 1.0 / 3, 1.0 / 3, 1.0 / 3, 0, 0});
  CHECK(TokenCoefficients(counted, offsets, Aggregation::kSequenceMean, 0, CountTotals(counted, offsets)) == std::vector<double>{0.25, 0.25, 0.25, 0.5, 0, 0});
  CHECK(TokenCoefficients(counted, offsets, Aggregation::kConstantLength, 10, CountTotals(counted, offsets)) ==
        std::vector<double>{0.05, 0.05, 0.05, 0.05, 0, 0});
}

TEST_CASE("Options out of range are refused by name", "[trainer][loss]") {
  PolicyLossOptions options;
  options.eps_low = 1.5;
  CHECK(Validate(options).message() == "policy loss: eps_low = 1.5, allowed [0, 1]");
  options = {};
  options.aggregation = Aggregation::kConstantLength;
  CHECK(Validate(options).message() == "policy loss: constant_length = 0, allowed > 0 with this aggregation");
}

}  // namespace
}  // namespace hone::trainer
