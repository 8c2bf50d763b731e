#pragma once

// Counter-based random numbers: the n-th number of a stream is a function of (seed, stream, n), so that a request's
// draws depend on nothing but its own seed, and a generator's whole state is its counter.
// Source: Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", SC 2011: Philox 4x32, 10 rounds.

#include <array>
#include <cstdint>

namespace hone::rollout {

inline std::array<uint32_t, 4> Philox(std::array<uint32_t, 4> counter, std::array<uint32_t, 2> key) {
  for (int round = 0; round < 10; ++round) {
    const uint64_t a = uint64_t{0xD2511F53} * counter[0], b = uint64_t{0xCD9E8D57} * counter[2];
    counter = {static_cast<uint32_t>(b >> 32) ^ counter[1] ^ key[0], static_cast<uint32_t>(b),
               static_cast<uint32_t>(a >> 32) ^ counter[3] ^ key[1], static_cast<uint32_t>(a)};
    key = {key[0] + 0x9E3779B9, key[1] + 0xBB67AE85};
  }
  return counter;
}

/// The n-th uniform number of a stream, in (0, 1), with 53 bits.
inline double UniformAt(uint64_t seed, uint64_t stream, uint64_t n) {
  const std::array<uint32_t, 4> bits =
      Philox({static_cast<uint32_t>(n), static_cast<uint32_t>(n >> 32), static_cast<uint32_t>(stream),
              static_cast<uint32_t>(stream >> 32)},
             {static_cast<uint32_t>(seed), static_cast<uint32_t>(seed >> 32)});
  const uint64_t mantissa = (uint64_t{bits[0]} << 32 | bits[1]) >> 11;
  return (static_cast<double>(mantissa) + 0.5) * 0x1.0p-53;
}

}  // namespace hone::rollout
