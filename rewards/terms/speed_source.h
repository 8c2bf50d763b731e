#pragma once

// Which measured speedup a speed term reads. Shared by all of them.

#include <optional>
#include <string>

#include "rewards/outcome.h"
#include "rewards/part.h"

namespace hone::rewards {

struct SpeedSource {
  std::optional<Baseline> baseline;  // std::nullopt: the first baseline of the verdict's protocol
  bool median = false;               // false: the lower bound of the 95 % interval, so that noise cannot pay

  /// Adds the parameters `baseline` and `estimate`.
  void Describe(Fields& fields);

  /// Baseline time / candidate time, > 0; std::nullopt when the outcome has no such timing.
  std::optional<double> Read(const Outcome& outcome) const;

  /// "lower bound of the speedup over the eager reference".
  std::string InWords() const;
};

}  // namespace hone::rewards
