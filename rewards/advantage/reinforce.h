#pragma once

#include <string>

#include "rewards/advantage/advantage.h"

namespace hone::rewards {

/// Normalised over the batch: A_i = (r_i - b_i) / (std of r - b over the batch + epsilon).
/// `baseline: batch`  b = mean of the whole batch (REINFORCE++): a group of equal rewards is not zero here, only a
/// batch
///                    of equal rewards is.
/// `baseline: group`  b = mean of the sample's group (the variant with baseline): equal groups are exactly zero.
/// A sample without a reward is not in the batch; in `baseline: batch` its absence moves the statistics of the others,
/// as any batch norm does. A batch of one gets 0. Source: REINFORCE++, arXiv:2501.03262. Ours: epsilon 1e-8.
class ReinforcePlusPlus final : public Advantage {
 public:
  static constexpr const char* kName = "reinforce_plus_plus";
  static constexpr const char* kSummary = "(r - batch or group mean) / (batch std + epsilon)";
  static constexpr const char* kSource = "REINFORCE++, arXiv:2501.03262; epsilon is ours";
  std::string baseline = "batch";
  double epsilon = 1e-8;
  void Describe(Fields& fields) override;
  std::string Formula() const override;
  void Compute(absl::Span<const Sample> samples, absl::Span<double> advantages) const override;
};

}  // namespace hone::rewards
