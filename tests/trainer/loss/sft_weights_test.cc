#include "tests/support/catch_torch.h"

#include "trainer/loss/sft_weights.h"

namespace hone::trainer {
namespace {

using Catch::Matchers::WithinAbs;

TEST_CASE("CuSeT's weights on an example worked by hand", "[trainer][loss]") {
  // p = 0.9 0.05 0.8 0.3 0.6, the third and fourth token in a kernel, tau 0.1, lambda 1, window 2: positions [t-1, t].
  // Window means: 0.9 | 0.475 | 0.425 | 0.55 | 0.45, so w = 1 - 0.425 = 0.575.
  // Mask + kernel: 1, 0, 2, 2, 1.
  const std::vector<float> p{0.9f, 0.05f, 0.8f, 0.3f, 0.6f};
  const std::vector<uint8_t> kernel{0, 0, 1, 1, 0};
  const std::vector<float> weights = CusetWeights(p, kernel, {.objective = SftObjective::kCuset, .window = 2});
  const double wanted[] = {0.575, 0, 1.15, 1.15, 0.575};
  for (int t = 0; t < 5; ++t) CHECK_THAT(weights[t], WithinAbs(wanted[t], 1e-6));
}

TEST_CASE("A response shorter than the window is averaged whole, an odd window reaches as far on both sides", "[trainer][loss]") {
  const std::vector<float> p{0.2f, 0.4f, 0.9f};
  CHECK_THAT(CusetWeights(p, {}, {})[2], WithinAbs(0.5, 1e-6));  // 1 - mean 0.5
  // Window 3: means 0.3, 0.5, 0.65.
  CHECK_THAT(CusetWeights(p, {}, {.window = 3})[0], WithinAbs(0.7, 1e-6));
}

TEST_CASE("An unsure token in a kernel keeps lambda, outside it is left out", "[trainer][loss]") {
  const std::vector<float> p{0.05f, 0.05f};
  const std::vector<float> weights = CusetWeights(p, std::vector<uint8_t>{1, 0}, {.lambda = 2});
  CHECK_THAT(weights[0], WithinAbs(0.95 * 2, 1e-6));
  CHECK(weights[1] == 0);
}

TEST_CASE("DFT weighs by probability, ProFit by the confidence mask alone", "[trainer][loss]") {
  const std::vector<float> p{0.9f, 0.05f};
  CHECK(SftWeights(p, {}, {.objective = SftObjective::kDft}) == p);
  CHECK(SftWeights(p, {}, {.objective = SftObjective::kProfit}) == std::vector<float>{1, 0});
  CHECK(Validate({.tau = 1}).message() == "sft: tau = 1, allowed [0, 1)");
}

}  // namespace
}  // namespace hone::trainer
