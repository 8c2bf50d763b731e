#pragma once

#include <string>

#include "rewards/turns/turn_rule.h"

namespace hone::rewards {

/// G_k = sum over j >= k of gamma^(j-k) s_j: each turn is a training sample of its own with the discounted sum of its
/// own and later scores. A turn without a score leaves itself and the turns before it without a sample. Source: Kevin,
/// arXiv:2507.11948, gamma 0.4; Dr.Kernel uses gamma 1. gamma 0 scores every turn by itself.
class DiscountedReturn final : public TurnRule {
 public:
  static constexpr const char* kName = "discounted_return";
  static constexpr const char* kSummary = "G_k = sum of gamma^(j-k) s_j over j >= k, every turn trained";
  static constexpr const char* kSource = "Kevin, arXiv:2507.11948 (gamma 0.4); Dr.Kernel (gamma 1)";

  double gamma = 0.4;

  void Describe(Fields& fields) override;
  std::string Formula() const override;
  void Credit(absl::Span<const ScoredTurn> turns, absl::Span<std::optional<double>> rewards) const override;
};

}  // namespace hone::rewards
