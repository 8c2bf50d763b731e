#pragma once

// Advantages that compare a sample with its own group.

#include <string>

#include "rewards/advantage/advantage.h"

namespace hone::rewards {

/// A_i = (r_i - mean) / (std + epsilon), std divided by G. A group of one gets 0.
/// Source: GRPO, arXiv:2402.03300, section 4.1. Ours: population std and epsilon 1e-6 (papers leave both open); a
/// larger epsilon (0.1) keeps groups of nearly equal rewards from being blown up.
class Grpo final : public Advantage {
 public:
  static constexpr const char* kName = "grpo";
  static constexpr const char* kSummary = "(r - group mean) / (group std + epsilon)";
  static constexpr const char* kSource = "GRPO, arXiv:2402.03300, section 4.1; population std and epsilon are ours";
  double epsilon = 1e-6;
  void Describe(Fields& fields) override;
  std::string Formula() const override;
  void Compute(absl::Span<const Sample> samples, absl::Span<double> advantages) const override;
};

/// A_i = r_i - mean. A group of one gets 0. (The constant length divisor of the same paper belongs to the loss.)
/// Source: Dr.GRPO, arXiv:2503.20783.
class DrGrpo final : public Advantage {
 public:
  static constexpr const char* kName = "dr_grpo";
  static constexpr const char* kSummary = "r - group mean";
  static constexpr const char* kSource = "Dr.GRPO, arXiv:2503.20783";
  std::string Formula() const override;
  void Compute(absl::Span<const Sample> samples, absl::Span<double> advantages) const override;
};

/// A_i = r_i - mean of the others = G/(G-1) (r_i - mean). A group of one has no others and gets 0.
/// Source: RLOO, arXiv:2402.14740.
class Rloo final : public Advantage {
 public:
  static constexpr const char* kName = "rloo";
  static constexpr const char* kSummary = "r - mean of the other group members; alone: 0";
  static constexpr const char* kSource = "RLOO, arXiv:2402.14740";
  std::string Formula() const override;
  void Compute(absl::Span<const Sample> samples, absl::Span<double> advantages) const override;
};

/// RLOO on turn returns; the pipeline groups samples of one prompt and one turn index (`compare: turn`). A group of one
/// keeps A = r: there the reward is its own advantage, so such a group is not zero.
/// Source: TRLOO of Dr.Kernel (turn-level REINFORCE leave-one-out), N = 1 gives A = G as published.
class Trloo final : public Advantage {
 public:
  static constexpr const char* kName = "trloo";
  static constexpr const char* kSummary = "N/(N-1) (r - mean) over one prompt and turn index; alone: r";
  static constexpr const char* kSource = "Dr.Kernel, turn-level leave-one-out";
  std::string Formula() const override;
  void Compute(absl::Span<const Sample> samples, absl::Span<double> advantages) const override;
};

}  // namespace hone::rewards
