#include "trainer/loss/sft_weights.h"

#include <algorithm>

#include "absl/strings/str_cat.h"

namespace hone::trainer {
namespace {

// min over t of the window means, by prefix sums.
double LeastWindowMean(std::span<const float> p, int64_t window) {
  const int64_t count = static_cast<int64_t>(p.size());
  std::vector<double> sums(count + 1, 0.0);
  for (int64_t t = 0; t < count; ++t) sums[t + 1] = sums[t] + p[t];
  if (count < window) return sums[count] / static_cast<double>(count);
  double least = 1;
  for (int64_t t = 0; t < count; ++t) {
    const int64_t begin = std::max<int64_t>(0, t - window / 2), end = std::min(count, t + (window + 1) / 2);
    least = std::min(least, (sums[end] - sums[begin]) / static_cast<double>(end - begin));
  }
  return least;
}

}  // namespace

absl::Status Validate(const SftWeightOptions& o) {
  const auto bad = [](const char* name, auto value, const char* range) {
    return absl::InvalidArgumentError(absl::StrCat("sft: ", name, " = ", value, ", allowed ", range));
  };
  if (!(o.tau >= 0 && o.tau < 1)) return bad("tau", o.tau, "[0, 1)");
  if (!(o.lambda >= 0)) return bad("lambda", o.lambda, ">= 0");
  if (o.window < 1) return bad("window", o.window, ">= 1");
  return absl::OkStatus();
}

std::vector<float> CusetWeights(std::span<const float> p, std::span<const uint8_t> kernel, const SftWeightOptions& options) {
  std::vector<float> weights(p.size());
  if (p.empty()) return weights;
  const double w = 1 - LeastWindowMean(p, options.window);
  for (size_t t = 0; t < p.size(); ++t) {
    const double confident = p[t] > options.tau ? 1 : 0;
    const double sensitive = !kernel.empty() && kernel[t] != 0 ? options.lambda : 0;
    weights[t] = static_cast<float>(w * (confident + sensitive));
  }
  return weights;
}

std::vector<float> SftWeights(std::span<const float> p, std::span<const uint8_t> kernel, const SftWeightOptions& options) {
  switch (options.objective) {
    case SftObjective::kPlain: return std::vector<float>(p.size(), 1.0f);
    case SftObjective::kCuset: return CusetWeights(p, kernel, options);
    case SftObjective::kDft: return {p.begin(), p.end()};
    case SftObjective::kProfit: break;
  }
  std::vector<float> weights(p.size());
  for (size_t t = 0; t < p.size(); ++t) weights[t] = p[t] > options.tau ? 1.0f : 0.0f;
  return weights;
}

}  // namespace hone::trainer
