#pragma once

#include <string>
#include <vector>

#include "rewards/turns/turn_rule.h"

namespace hone::rewards {

/// R = alpha s_1 + (1 - alpha) max_k s_k + b, given to the first turn alone: later turns evaluate the episode and get
/// no gradient. b = early_bonus[k] when turn k (from 0) is the first that passes, else 0. No discount. An episode of
/// one turn earns s_1 + b. One turn without a score leaves the whole episode without a sample. The turn budget of 3 and
/// the stop at the first pass belong to the episode driver. Source: MusaCoder, arXiv:2606.04847, eq. 9; alpha 0.75 is
/// theirs, the bonuses 0.15 and 0.08 are ours (not published).
class PrimeEcho final : public TurnRule {
 public:
  static constexpr const char* kName = "primeecho";
  static constexpr const char* kSummary = "alpha s_1 + (1 - alpha) max s + bonus for an early pass, first turn trained";
  static constexpr const char* kSource = "MusaCoder, arXiv:2606.04847, eq. 9; the bonuses are ours";

  double alpha = 0.75;
  std::vector<double> early_bonus = {0.15, 0.08};

  void Describe(Fields& fields) override;
  std::string Formula() const override;
  void Credit(absl::Span<const ScoredTurn> turns, absl::Span<std::optional<double>> rewards) const override;
};

}  // namespace hone::rewards
