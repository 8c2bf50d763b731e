#pragma once

// The lane's secret: drawn from the kernel at its start, never written anywhere. Everything that a candidate could profit
// from knowing comes from it: input seeds, addresses, the order of rounds.

#include <array>
#include <cstdint>
#include <string>

#include "absl/status/statusor.h"

namespace hone::verifier {

class SecretSeeds {
 public:
  /// kInternal: the kernel has no random numbers.
  static absl::StatusOr<SecretSeeds> Create();

  /// A new seed in [0, 2^62), never given before.
  int64_t NextSeed();
  /// Uniform in [0, bound).
  uint64_t Below(uint64_t bound);
  /// Names the secret and how far it was used, without revealing it: 16 hexadecimal digits.
  std::string Id() const;

 private:
  uint64_t Next();

  std::array<unsigned char, 32> secret_;
  uint64_t counter_ = 0;
  uint64_t state_ = 0;  // of the fast stream behind Below
};

}  // namespace hone::verifier
