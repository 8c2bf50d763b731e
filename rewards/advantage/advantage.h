#pragma once

// An advantage turns the rewards of compared samples into the factors of the policy gradient. Samples without a reward
// (INFRA, discarded measurements) are not there: the group is smaller, nothing else changes.

#include "absl/types/span.h"
#include "rewards/part.h"

namespace hone::rewards {

/// One trained turn with its reward. Samples that are compared share a group.
struct Sample {
  int64_t group = 0;
  double reward = 0;
};

class Advantage : public Part {
 public:
  /// `samples` of one batch, those of a group adjacent; `advantages` [samples] is overwritten. Finite for finite
  /// rewards. A group whose largest and smallest reward are equal gets exact zeros unless the class says otherwise.
  virtual void Compute(absl::Span<const Sample> samples, absl::Span<double> advantages) const = 0;

  /// All advantages there are.
  static absl::Span<const Registration<Advantage>> Registry();
};

/// Mean, spread and extremes of a run of samples.
struct RewardStats {
  int64_t count = 0;
  double mean = 0;
  double std = 0;  // population: divided by count
  double min = 0;
  double max = 0;
  /// No signal: the mean of equal floats need not equal them, so equality is asked of the rewards themselves.
  bool equal() const { return min == max; }
};
RewardStats StatsOf(absl::Span<const Sample> samples);

/// Calls `visit(begin, end)` for each run of samples with one group.
template <class Visit>
void ForEachGroup(absl::Span<const Sample> samples, Visit visit) {
  for (size_t begin = 0; begin < samples.size();) {
    size_t end = begin + 1;
    while (end < samples.size() && samples[end].group == samples[begin].group) ++end;
    visit(begin, end);
    begin = end;
  }
}

}  // namespace hone::rewards
