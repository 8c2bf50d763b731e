#pragma once

// Which measured speedup a speed term reads. Shared by all of them.
//
// A pass without the timing that is named counts as a speedup of 1: right, and nothing proved about its speed. Leaving
// it out instead would leave its group with the failures alone. The pipeline counts such passes.

#include <optional>
#include <string>
#include <vector>

#include "rewards/outcome.h"
#include "rewards/part.h"

namespace hone::rewards {

struct SpeedSource {
  std::optional<Baseline> baseline;  // std::nullopt: the first baseline of the verdict's protocol
  bool median = false;               // false: the lower bound of the 95 % interval, so that noise cannot pay

  /// Adds the parameters `baseline` and `estimate`.
  void Describe(Fields& fields);

  /// Baseline time / candidate time of a pass, > 0; 1 when there is no such timing.
  double Read(const Outcome& outcome) const;
  bool Measured(const Outcome& outcome) const { return Find(outcome) != nullptr; }

  /// The named baseline, if one is named.
  std::vector<Baseline> Named() const;

  /// "lower bound of the speedup over the eager reference".
  std::string InWords() const;

 private:
  const Speedup* Find(const Outcome& outcome) const;
};

}  // namespace hone::rewards
