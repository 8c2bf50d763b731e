#pragma once

// What each token of a supervised response counts, given how sure the model is of it. Pure functions, no torch: the
// weights carry no gradient.

#include <cstdint>
#include <span>
#include <vector>

#include "absl/status/status.h"

namespace hone::trainer {

enum class SftObjective {
  kPlain,   // 1
  kCuset,   // arXiv:2606.16231, eq. 2-8: see CusetWeights
  kDft,     // p: gradients of sure tokens count more, as in a policy gradient (dynamic fine-tuning, arXiv:2508.05629)
  kProfit,  // 1[p > tau]: CuSeT's confidence mask alone, as its ablation shows
};

struct SftWeightOptions {
  SftObjective objective = SftObjective::kPlain;
  double tau = 0.1;       // confidence below which a token outside kernels is left out
  double lambda = 1;      // further weight of kernel and launch tokens
  int64_t window = 256;   // tokens over which confidence is averaged
};

/// kInvalidArgument names the field, its value and the allowed range.
absl::Status Validate(const SftWeightOptions& options);

/// CuSeT for one response: weight_t = w * (1[p_t > tau] + lambda * kernel_t) with w = 1 - min_t C_t and C_t the mean of p
/// over the window centred at t, positions [t - window / 2, t + ceil(window / 2) - 1] clipped to the response (the whole
/// response when it is shorter than the window).
/// probabilities, kernel: [response tokens]; kernel 1 where the token lies in a kernel's body or a launch's
/// configuration (empty: nowhere).
std::vector<float> CusetWeights(std::span<const float> probabilities, std::span<const uint8_t> kernel, const SftWeightOptions& options);

/// Any objective's weights for one response.
std::vector<float> SftWeights(std::span<const float> probabilities, std::span<const uint8_t> kernel, const SftWeightOptions& options);

}  // namespace hone::trainer
