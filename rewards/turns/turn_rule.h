#pragma once

// A turn rule makes rewards of the scores of an episode's turns and says which turns are trained on.

#include <optional>

#include "absl/types/span.h"
#include "rewards/part.h"

namespace hone::rewards {

struct ScoredTurn {
  std::optional<double> score;  // weighted sum of the terms; std::nullopt: no sample
  bool passed = false;
};

class TurnRule : public Part {
 public:
  /// Fills `rewards` ([turns], all empty on entry) for the turns whose response tokens get gradient. A turn whose
  /// reward would depend on a turn without a score stays empty: what is not known is not guessed.
  virtual void Credit(absl::Span<const ScoredTurn> turns, absl::Span<std::optional<double>> rewards) const = 0;

  /// All rules there are.
  static absl::Span<const Registration<TurnRule>> Registry();
};

}  // namespace hone::rewards
