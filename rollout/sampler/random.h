#pragma once

// A small generator whose whole state is one number, so that a checkpoint keeps it and a resumed sampler draws on.
// SplitMix64 (Steele, Lea, Flood 2014): equal states give equal draws on every machine.

#include <cstdint>

#include "absl/types/span.h"

namespace hone::rollout {

class SplitMix {
 public:
  explicit SplitMix(uint64_t state = 0) : state_(state) {}

  uint64_t Next() {
    uint64_t z = state_ += 0x9e3779b97f4a7c15u;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
  }
  /// In [0, 1).
  double Uniform() { return static_cast<double>(Next() >> 11) * 0x1.0p-53; }
  /// In [0, count), count > 0; the bias of 2^-53 is beneath notice.
  int64_t Below(int64_t count) { return static_cast<int64_t>(Uniform() * static_cast<double>(count)); }
  bool Chance(double probability) { return Uniform() < probability; }
  /// An index with probability proportional to its weight; weights are not negative and not all zero.
  int Pick(absl::Span<const double> weights) {
    double total = 0;
    for (const double weight : weights) total += weight;
    double rest = Uniform() * total;
    int chosen = 0;
    for (int i = 0; i < static_cast<int>(weights.size()) && rest >= 0; ++i) {
      if (weights[i] <= 0) continue;
      chosen = i;
      rest -= weights[i];
    }
    return chosen;
  }

  uint64_t state() const { return state_; }

 private:
  uint64_t state_;
};

}  // namespace hone::rollout
