#pragma once

// What a checksum makes of one word; for host and device.

#include <cstdint>

#ifdef __CUDACC__
#define HONE_HOST_DEVICE __host__ __device__
#else
#define HONE_HOST_DEVICE
#endif

namespace hone::policy {

/// SplitMix64's finaliser (Steele, Lea, Flood, "Fast splittable pseudorandom number generators", 2014) of the word and
/// its place.
HONE_HOST_DEVICE inline uint64_t MixWord(uint64_t word, uint64_t index) {
  uint64_t z = word + (index + 1) * 0x9e3779b97f4a7c15ull;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ull;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebull;
  return z ^ (z >> 31);
}

}  // namespace hone::policy
