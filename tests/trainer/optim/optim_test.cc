#include "tests/support/catch_torch.h"

#include <cmath>
#include <limits>

#include "trainer/optim/adamw.h"
#include "trainer/optim/schedule.h"

namespace hone::trainer {
namespace {

using Catch::Matchers::WithinAbs;

TEST_CASE("AdamW follows the published update in fp64, with decay on matrices only", "[trainer][optim]") {
  std::vector<policy::Leaf> leaves{{"matrix", at::full({2, 3}, 0.5).requires_grad_(true), true},
                                   {"norm", at::full({4}, 0.5).requires_grad_(true), false}};
  const AdamWOptions options{.beta1 = 0.9, .beta2 = 0.95, .epsilon = 1e-8, .weight_decay = 0.1};
  const auto adamw = AdamW::Create(options, leaves).value();
  double m = 0, v = 0, matrix = 0.5, norm = 0.5;
  for (int t = 1; t <= 5; ++t) {
    const double g = 0.3 * t - 1, rate = 0.01 * t;
    adamw->ZeroGradients();
    for (policy::Leaf& leaf : leaves) leaf.value.mutable_grad().fill_(g);
    REQUIRE(adamw->Step(rate).ok());
    m = 0.9 * m + 0.1 * g;
    v = 0.95 * v + 0.05 * g * g;
    const double move = rate * (m / (1 - std::pow(0.9, t))) / (std::sqrt(v / (1 - std::pow(0.95, t))) + 1e-8);
    matrix = matrix * (1 - rate * 0.1) - move;
    norm -= move;
  }
  CHECK_THAT(leaves[0].value[1][2].item<double>(), WithinAbs(matrix, 1e-6));
  CHECK_THAT(leaves[1].value[3].item<double>(), WithinAbs(norm, 1e-6));
}

TEST_CASE("Steps that bf16 cannot tell apart add up in the fp32 master", "[trainer][optim]") {
  std::vector<policy::Leaf> leaves{{"w", at::ones({2}, at::kBFloat16).requires_grad_(true), true}};
  const auto adamw = AdamW::Create({.weight_decay = 0}, leaves).value();
  for (int t = 0; t < 8; ++t) {
    adamw->ZeroGradients();
    leaves[0].value.mutable_grad().fill_(1);  // a constant gradient: each step is the learning rate
    REQUIRE(adamw->Step(0.001).ok());
    if (t == 0) CHECK(leaves[0].value[0].item<double>() == 1);  // the next smaller bf16 is 1 - 2^-8
  }
  CHECK(leaves[0].value[0].item<double>() == 1 - 0.0078125);  // 0.992
}

TEST_CASE("A scaled step is the step of scaled gradients", "[trainer][optim]") {
  std::vector<policy::Leaf> clipped{{"w", at::ones({2}).requires_grad_(true), true}}, small{{"w", at::ones({2}).requires_grad_(true), true}};
  const auto a = AdamW::Create({.epsilon = 0.1}, clipped).value(), b = AdamW::Create({.epsilon = 0.1}, small).value();
  clipped[0].value.mutable_grad().fill_(2);
  small[0].value.mutable_grad().fill_(0.5);
  REQUIRE(a->Step(0.01, 0.25).ok());
  REQUIRE(b->Step(0.01).ok());
  CHECK(at::equal(clipped[0].value, small[0].value));
}

TEST_CASE("Masters are part of the state, and a restored one sets the weights", "[trainer][optim]") {
  std::vector<policy::Leaf> leaves{{"w", at::ones({2}, at::kBFloat16).requires_grad_(true), true}};
  const auto adamw = AdamW::Create({}, leaves).value();
  std::vector<std::pair<std::string, at::Tensor>> state;
  for (const auto& [name, tensor] : adamw->State()) state.emplace_back(name, tensor.clone());
  REQUIRE(state.size() == 3);
  REQUIRE(state[2].first == "master");
  state[2].second.fill_(0.5);
  REQUIRE(adamw->Restore(state, 4).ok());
  CHECK(leaves[0].value[1].item<double>() == 0.5);
  state.pop_back();
  CHECK(adamw->Restore(state, 4).message() == "optimizer state master is missing");
}

TEST_CASE("Offloaded state makes the same steps to the bit, and goes on from a checkpoint of state that was not",
          "[trainer][optim]") {
  for (const at::ScalarType dtype : {at::kFloat, at::kBFloat16}) {
    const at::Tensor start = at::randn({50, 7}).to(dtype);
    std::vector<policy::Leaf> here{{"w", start.clone().requires_grad_(true), true}},
        away{{"w", start.clone().requires_grad_(true), true}};
    const auto plain = AdamW::Create({}, here).value(), offloaded = AdamW::Create({.offload = true}, away).value();
    const auto step = [&] {
      const at::Tensor gradient = at::randn({50, 7});
      for (auto [adamw, leaves] : {std::pair{plain.get(), &here}, std::pair{offloaded.get(), &away}}) {
        adamw->ZeroGradients();
        (*leaves)[0].value.mutable_grad().copy_(gradient);
        REQUIRE(adamw->Step(0.01, 0.5).ok());
      }
    };
    for (int t = 0; t < 3; ++t) step();
    CHECK(at::equal(here[0].value, away[0].value));
    CHECK_FALSE(at::equal(here[0].value, start));
    auto state = plain->State();
    if (dtype == at::kFloat) state.emplace_back("master", at::zeros_like(state[0].second));
    if (dtype == at::kFloat) state[2].second.narrow(0, 0, 350).copy_(here[0].value.detach().view({-1}));
    REQUIRE(offloaded->Restore(state, plain->steps()).ok());
    step();
    CHECK(at::equal(here[0].value, away[0].value));
  }
}

TEST_CASE("Weights of a dtype that cannot be trained are refused by name", "[trainer][optim]") {
  const std::vector<policy::Leaf> leaves{{"w", at::zeros({2}, at::kDouble).requires_grad_(true), true}};
  CHECK(AdamW::Create({}, leaves).status().message() == "adamw: weight w is Double, allowed Float, BFloat16, Half");
}

TEST_CASE("The gradient norm spans all leaves", "[trainer][optim]") {
  std::vector<policy::Leaf> leaves{{"a", at::zeros({3}).requires_grad_(true), true}, {"b", at::zeros({1}).requires_grad_(true), true}};
  const auto adamw = AdamW::Create({}, leaves).value();
  leaves[0].value.mutable_grad().fill_(2);
  leaves[1].value.mutable_grad().fill_(2);
  CHECK(adamw->GradientNorm().value() == 4);
}

TEST_CASE("The schedule warms up linearly and ends at its floor", "[trainer][optim]") {
  const Schedule s{Schedule::Shape::kCosine, 1.0, 0.1, 4, 24};
  CHECK(LearningRate(s, 0) == 0.25);
  CHECK(LearningRate(s, 3) == 1.0);
  CHECK(LearningRate(s, 4) == 1.0);
  CHECK_THAT(LearningRate(s, 14), WithinAbs(0.55, 1e-12));  // half way
  CHECK_THAT(LearningRate(s, 24), WithinAbs(0.1, 1e-12));
  CHECK_THAT(LearningRate(s, 1000), WithinAbs(0.1, 1e-12));
}

}  // namespace
}  // namespace hone::trainer
