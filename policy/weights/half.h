#pragma once

// The two 16-bit floats as bit patterns.

#include <cstdint>
#include <cstring>

namespace hone::policy {

inline float FloatFromBits(uint32_t bits) {
  float value;
  std::memcpy(&value, &bits, sizeof value);
  return value;
}

inline uint32_t BitsFromFloat(float value) {
  uint32_t bits;
  std::memcpy(&bits, &value, sizeof bits);
  return bits;
}

inline float FloatFromBFloat16(uint16_t bits) { return FloatFromBits(uint32_t{bits} << 16); }

/// Rounds to nearest, ties to even; NaN stays NaN.
inline uint16_t BFloat16FromFloat(float value) {
  const uint32_t bits = BitsFromFloat(value);
  if ((bits & 0x7FFFFFFF) > 0x7F800000) return static_cast<uint16_t>(bits >> 16 | 0x40);
  return static_cast<uint16_t>((bits + 0x7FFF + (bits >> 16 & 1)) >> 16);
}

inline float FloatFromHalf(uint16_t half) {
  const uint32_t sign = uint32_t{half & 0x8000u} << 16;
  const uint32_t exponent = half >> 10 & 0x1F;
  const uint32_t mantissa = half & 0x3FF;
  if (exponent == 0x1F) return FloatFromBits(sign | 0x7F800000 | mantissa << 13);
  if (exponent != 0) return FloatFromBits(sign | (exponent + 112) << 23 | mantissa << 13);
  const float magnitude = static_cast<float>(mantissa) * 0x1p-24f;  // subnormal or zero: exact
  return sign ? -magnitude : magnitude;
}

/// Rounds to nearest, ties to even; beyond the range becomes infinity, NaN stays NaN.
inline uint16_t HalfFromFloat(float value) {
  const uint32_t bits = BitsFromFloat(value);
  const uint16_t sign = static_cast<uint16_t>(bits >> 16 & 0x8000);
  const uint32_t magnitude = bits & 0x7FFFFFFF;
  if (magnitude > 0x7F800000) return static_cast<uint16_t>(sign | 0x7E00);
  if (magnitude >= 0x477FF000) return static_cast<uint16_t>(sign | 0x7C00);  // 65520 and above
  if (magnitude < 0x38800000) {  // below the smallest normal: the adder's own rounding at 2^-24
    const float shifted = FloatFromBits(magnitude) + 0.5f;
    return static_cast<uint16_t>(sign | (BitsFromFloat(shifted) - BitsFromFloat(0.5f)));
  }
  const uint32_t rounded = magnitude + 0xFFF + (magnitude >> 13 & 1);
  return static_cast<uint16_t>(sign | (rounded - (112u << 23)) >> 13);
}

}  // namespace hone::policy
