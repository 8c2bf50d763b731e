#pragma once

// Random numbers whose values are part of the contract: a seed gives the same sequence with every compiler and library,
// which the distributions of <random> do not promise.

#include <cstdint>

#include "absl/types/span.h"

namespace hone {

/// SplitMix64 (Steele, Lea, Flood, "Fast splittable pseudorandom number generators", OOPSLA 2014). The whole state is one
/// number: save state(), go on later with Random(state). Not for secrets. Not thread-safe: one per thread, by Fork().
class Random {
 public:
  explicit Random(uint64_t seed) : state_(seed) {}

  uint64_t Next() {
    uint64_t z = state_ += 0x9E3779B97F4A7C15u;
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
    return z ^ (z >> 31);
  }

  /// Uniform in [0, 1), a multiple of 2^-53.
  double Uniform() { return static_cast<double>(Next() >> 11) * 0x1.0p-53; }
  bool Chance(double probability) { return Uniform() < probability; }

  /// Uniform in [0, n); n > 0. By multiplication (Lemire, arXiv:1805.10941) without its rejection step: for n below 2^32
  /// no value's probability is off by more than 2^-32 of itself.
  int64_t Below(int64_t n) {
    return static_cast<int64_t>((static_cast<unsigned __int128>(Next()) * static_cast<uint64_t>(n)) >> 64);
  }

  /// An index with probability proportional to its weight; weights are not negative and not all zero.
  int Pick(absl::Span<const double> weights) {
    double total = 0;
    for (const double weight : weights) total += weight;
    double rest = Uniform() * total;
    int last = 0;
    for (int i = 0; i < static_cast<int>(weights.size()); ++i) {
      if (weights[i] <= 0) continue;
      last = i;
      rest -= weights[i];
      if (rest < 0) break;
    }
    return last;
  }

  /// A generator of its own for a part of the work.
  Random Fork() { return Random(Next()); }

  uint64_t state() const { return state_; }

 private:
  uint64_t state_;
};

}  // namespace hone
