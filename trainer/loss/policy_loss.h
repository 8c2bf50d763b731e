#pragma once

// Losses over the trained tokens of a micro-batch. They are sums of per-token terms times coefficients fixed before the
// batch was cut, so that neither micro-batching nor the number of ranks changes the gradient.

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "ATen/core/Tensor.h"
#include "absl/status/statusor.h"

namespace hone::trainer {

/// What a token's ratio is clipped to and how it enters.
enum class PolicyObjective {
  kClippedRatio,   // GRPO, DAPO, Dr.GRPO: min(r A, clip(r, 1 - eps_low, 1 + eps_high) A), r per token. arXiv:1707.06347
  kSequenceRatio,  // GSPO (arXiv:2507.18071): r_i = exp(mean_t log r_t) for the whole sequence, clipped as above
  kCispo,          // CISPO (arXiv:2506.13585): sg(clip(r, 1 - eps_low, 1 + eps_high)) A log pi
};

/// Estimators of KL(pi || reference) from the sampled token, d = log reference - log pi (Schulman's k1, k2, k3):
/// -d, d^2 / 2, exp(d) - d - 1. The gradient flows through log pi.
enum class KlEstimator { kK1, kK2, kK3 };

/// How tokens share the loss.
enum class Aggregation {
  kTokenMean,         // 1 / (counted tokens of the batch): DAPO
  kSequenceMean,      // 1 / (sequences * counted tokens of the sequence): GRPO
  kConstantLength,    // 1 / (sequences * constant): Dr.GRPO
};

struct PolicyLossOptions {
  PolicyObjective objective = PolicyObjective::kClippedRatio;
  Aggregation aggregation = Aggregation::kSequenceMean;
  double eps_low = 0.2;
  double eps_high = 0.2;
  double dual_clip = 0;         // c > 1: for A < 0 the term is at least c A (arXiv:1912.09729); 0: off
  double constant_length = 0;   // of kConstantLength
  double kl_coefficient = 0;
  KlEstimator kl_estimator = KlEstimator::kK3;
  double entropy_coefficient = 0;  // bonus
};

/// kInvalidArgument names the field, its value and the allowed range.
absl::Status Validate(const PolicyLossOptions& options);

/// What a batch's shares are made of. Sums over ranks are those of the whole batch.
struct BatchTotals {
  double tokens = 0;     // counted ones
  double sequences = 0;  // with at least one of them
};
BatchTotals CountTotals(const std::vector<uint8_t>& counted, const std::vector<int64_t>& offsets);

/// Each token's share of the loss. counted [tokens]: 1 where the token is in the denominator. offsets [sequences + 1].
/// Every token of the batch gets its share, counted or not, so that a filter's weight alone decides on its gradient.
/// A sequence without counted tokens gives 0 and leaves the number of sequences.
std::vector<double> TokenCoefficients(const std::vector<uint8_t>& counted, const std::vector<int64_t>& offsets,
                                      Aggregation aggregation, double constant_length, const BatchTotals& totals);

/// One micro-batch, all [tokens] fp32. Only log_probs and entropy carry gradients.
struct PolicyLossInput {
  at::Tensor log_probs;            // log pi_theta of the tokens
  at::Tensor entropy;              // of pi_theta; undefined where neither bonus nor metric is wanted
  at::Tensor old_log_probs;        // log pi_old: the denominator of the ratio
  at::Tensor advantages;           // of the token's sequence
  at::Tensor coefficients;         // share of the loss (TokenCoefficients)
  at::Tensor weights;              // of the policy term alone: filters, importance weights
  at::Tensor reference_log_probs;  // undefined: no KL term
  std::vector<int64_t> offsets;    // [sequences + 1]
};

struct PolicyLossOutput {
  at::Tensor loss;  // scalar, to be minimised; micro-batches' losses add up to the batch's
  /// Sums over the tokens, for weighted means over micro-batches: "tokens", "clipped", "ratio", "abs_log_ratio",
  /// "kl", "entropy", "policy_loss" (already a share of the batch).
  std::map<std::string, double> sums;
};

/// The log-ratio is clamped to [-20, 20] before exp. A token whose weight is 0 adds nothing, whatever its log-ratio.
/// Throws c10::Error on unequal shapes.
PolicyLossOutput PolicyLoss(const PolicyLossInput& input, const PolicyLossOptions& options);

/// sum_t coefficient_t * -log p_t
at::Tensor WeightedNegativeLogLikelihood(const at::Tensor& log_probs, const at::Tensor& coefficients);

}  // namespace hone::trainer
