// Against the losses and gradients of TRL's own trainers and of transformers (reference/trl_losses.json, made by
// trl_losses.py there) and the divergences of verl (verl_kl.json, made by verl_kl.py).

#include "tests/support/catch_torch.h"

#include <nlohmann/json.hpp>
#include <set>

#include "base/file.h"
#include "policy/model/ops.h"
#include "trainer/loss/policy_loss.h"
#include "trainer/loss/sft_weights.h"

namespace hone::trainer {
namespace {

using Catch::Matchers::WithinAbs;
using Json = nlohmann::json;

PolicyLossOptions OptionsOf(const Json& given) {
  const std::string type = given.at("loss_type");
  PolicyLossOptions options;
  options.eps_low = given.value("low", 0.2);
  options.eps_high = given.value("high", 0.2);
  options.kl_coefficient = given.value("beta", 0.0);
  options.dual_clip = given.value("delta", 0.0);
  if (given.value("level", "token") == "sequence") options.objective = PolicyObjective::kSequenceRatio;
  if (type == "cispo") {
    options.objective = PolicyObjective::kCispo;
    options.eps_low = 1;    // TRL has no lower limit
    options.eps_high -= 1;  // and gives the upper one as the ratio itself
  }
  options.aggregation = type == "grpo"      ? Aggregation::kSequenceMean
                        : type == "dr_grpo" ? Aggregation::kConstantLength
                                            : Aggregation::kTokenMean;
  options.constant_length = 32;
  return options;
}

at::Tensor Numbers(const Json& values) { return at::tensor(values.get<std::vector<double>>(), at::kDouble); }

PolicyLossInput InputOf(const Json& given, const PolicyLossOptions& options) {
  PolicyLossInput in;
  in.log_probs = Numbers(given.at("log_probs")).requires_grad_(true);
  in.old_log_probs = Numbers(given.at("old"));
  if (options.kl_coefficient != 0) in.reference_log_probs = Numbers(given.at("reference"));
  in.weights = at::ones_like(in.old_log_probs);
  in.offsets = {0};
  std::vector<double> advantages;
  for (size_t i = 0; i < given.at("lengths").size(); ++i) {
    const int64_t length = given.at("lengths")[i];
    in.offsets.push_back(in.offsets.back() + length);
    advantages.insert(advantages.end(), length, given.at("advantages")[i].get<double>());
  }
  in.advantages = at::tensor(advantages, at::kDouble);
  const std::vector<uint8_t> counted(in.offsets.back(), 1);
  in.coefficients = at::tensor(TokenCoefficients(counted, in.offsets, options.aggregation, options.constant_length,
                                                 CountTotals(counted, in.offsets)),
                               at::kDouble);
  return in;
}

TEST_CASE("Losses and gradients are TRL's own", "[trainer][loss]") {
  const Json reference = Json::parse(ReadFile(HONE_TRL_REFERENCE).value());
  std::set<std::string> names;
  for (const Json& given : reference.at("cases")) {
    INFO(given.at("name") << ", " << given.at("lengths").dump());
    names.insert(given.at("name"));
    const PolicyLossOptions options = OptionsOf(given.at("options"));
    const PolicyLossInput in = InputOf(given, options);
    const PolicyLossOutput out = PolicyLoss(in, options);
    CHECK_THAT(out.loss.item<double>(), WithinAbs(given.at("loss").get<double>(), 1e-9));
    out.loss.backward();
    const at::Tensor gradient = in.log_probs.grad(), want = Numbers(given.at("gradient"));
    CHECK_THAT((gradient - want).abs().max().item<double>(), WithinAbs(0, 1e-9));
    CHECK(want.abs().max().item<double>() > 1e-3);
  }
  CHECK(names.size() == 8);
}

TEST_CASE("Supervised losses and their gradients are TRL's own, plain and weighted by confidence", "[trainer][loss]") {
  const Json reference = Json::parse(ReadFile(HONE_TRL_REFERENCE).value());
  REQUIRE(reference.at("sft").size() == 2);
  for (const Json& given : reference.at("sft")) {
    INFO(given.at("loss_type"));
    const at::Tensor log_probs = Numbers(given.at("log_probs")).requires_grad_(true);
    const at::Tensor p = log_probs.detach().exp().to(at::kFloat);
    SftWeightOptions options;
    options.objective = given.at("loss_type") == "dft" ? SftObjective::kDft : SftObjective::kPlain;
    const std::vector<float> weights =
        SftWeights({p.const_data_ptr<float>(), static_cast<size_t>(p.numel())}, {}, options);
    const at::Tensor shares = at::tensor(std::vector<double>(weights.begin(), weights.end()), at::kDouble) / p.numel();
    const at::Tensor loss = WeightedNegativeLogLikelihood(log_probs, shares);
    CHECK_THAT(loss.item<double>(), WithinAbs(given.at("loss").get<double>(), 1e-7));
    loss.backward();
    CHECK_THAT((log_probs.grad() - Numbers(given.at("gradient"))).abs().max().item<double>(), WithinAbs(0, 1e-7));
  }
}

TEST_CASE("The estimators k1, k2 and k3 of the divergence from a reference, and their gradients, are verl's own", "[trainer][loss]") {
  const Json given = Json::parse(ReadFile(HONE_VERL_KL).value());
  const int64_t tokens = static_cast<int64_t>(given.at("log_probs").size());
  for (const auto& [name, estimator] :
       {std::pair<const char*, KlEstimator>{"k1", KlEstimator::kK1}, {"k2", KlEstimator::kK2}, {"k3", KlEstimator::kK3}}) {
    INFO(name);
    PolicyLossOptions options;
    options.kl_coefficient = 0.7;
    options.kl_estimator = estimator;
    PolicyLossInput in;  // no advantage: the divergence is the loss
    in.log_probs = Numbers(given.at("log_probs")).requires_grad_(true);
    in.old_log_probs = in.log_probs.detach().clone();
    in.reference_log_probs = Numbers(given.at("reference"));
    in.advantages = at::zeros_like(in.old_log_probs);
    in.weights = at::ones_like(in.old_log_probs);
    in.coefficients = at::full_like(in.old_log_probs, 1.0 / static_cast<double>(tokens));
    in.offsets = {0, tokens};
    const PolicyLossOutput out = PolicyLoss(in, options);
    const Json& wanted = given.at(name);
    CHECK_THAT(out.loss.item<double>(), WithinAbs(0.7 * wanted.at("mean").get<double>(), 1e-12));
    CHECK_THAT(out.sums.at("kl"), WithinAbs(static_cast<double>(tokens) * wanted.at("mean").get<double>(), 1e-10));
    out.loss.backward();
    CHECK_THAT((in.log_probs.grad() - Numbers(wanted.at("gradient")) * 0.7).abs().max().item<double>(), WithinAbs(0, 1e-12));
  }
}

at::Tensor Matrix(const Json& rows) {
  std::vector<at::Tensor> tensors;
  for (const Json& row : rows) tensors.push_back(Numbers(row));
  return at::stack(tensors);
}

TEST_CASE("The loss of a prompt's response over chunks of the vocabulary is transformers' own, and its gradients",
          "[trainer][loss]") {
  const Json given = Json::parse(ReadFile(HONE_TRL_REFERENCE).value()).at("language_model");
  const at::Tensor hidden = Matrix(given.at("hidden")).requires_grad_(true),
                   weight = Matrix(given.at("weight")).requires_grad_(true);
  const std::vector<int64_t> ids = given.at("ids");
  const int64_t prompt = given.at("prompt"), count = static_cast<int64_t>(ids.size()) - prompt;
  const at::Tensor targets = at::tensor(ids, at::kLong).narrow(0, prompt, count);
  policy::PackedWeight packed;
  const policy::LogProbs rows =
      policy::TokenLogProbs(hidden.narrow(0, prompt - 1, count), weight, packed, targets, 1.0, /*chunk_elements=*/26);
  const at::Tensor loss = -rows.log_probs.mean();
  CHECK_THAT(loss.item<double>(), WithinAbs(given.at("loss").get<double>(), 2e-6));
  loss.backward();
  for (const auto& [got, want] : {std::pair{hidden.grad(), Matrix(given.at("hidden_gradient"))},
                                  std::pair{weight.grad(), Matrix(given.at("weight_gradient"))}}) {
    CHECK_THAT((got - want).abs().max().item<double>(), WithinAbs(0, 2e-6));
    CHECK(want.abs().max().item<double>() > 1e-2);
  }
}

}  // namespace
}  // namespace hone::trainer
