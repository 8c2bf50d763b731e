#pragma once

#include <string>

#include "rewards/turns/turn_rule.h"

namespace hone::rewards {

/// One score stands for the episode: the best, the last or the first turn's. It is given to all turns or to the first.
/// `take: best, train: all` is the usual multi-turn reward that PrimeEcho was designed against.
/// One turn without a score leaves the whole episode without a sample (for `first`: only when it is the first).
/// Source: plain outcome rewards; ours as a family.
class SingleScore final : public TurnRule {
 public:
  static constexpr const char* kName = "single_score";
  static constexpr const char* kSummary = "The best, last or first turn's score for all turns, or for the first alone";
  static constexpr const char* kSource = "plain outcome reward";

  std::string take = "best";
  std::string train = "all";

  void Describe(Fields& fields) override;
  std::string Formula() const override;
  void Credit(absl::Span<const ScoredTurn> turns, absl::Span<std::optional<double>> rewards) const override;
};

}  // namespace hone::rewards
