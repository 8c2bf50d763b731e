// The bit patterns of the 16-bit floating types, from and to float. Branch-free, so that loops over them vectorise.
// Rounding is to nearest, ties to even, and a NaN becomes 0x7fff, as on the device.
#ifndef HONE_SMALL_FLOAT_BITS_H_
#define HONE_SMALL_FLOAT_BITS_H_

HONE_INLINE unsigned hone_bits(float x) { unsigned bits; __builtin_memcpy(&bits, &x, sizeof bits); return bits; }
HONE_INLINE float hone_float(unsigned bits) { float x; __builtin_memcpy(&x, &bits, sizeof x); return x; }

struct HoneBinary16 {
  HONE_INLINE float Unpack(unsigned short bits) {
    // As a float the pattern is 2^-112 times the value, subnormals included; infinity and NaN lack their exponent.
    const float scaled = hone_float((bits & 0x7fffu) << 13) * 5.192296858534827628530496329220096e33f;
    const unsigned special = (bits & 0x7c00u) == 0x7c00u ? 0x7f800000u : 0;
    return hone_float(hone_bits(scaled) | special | (bits & 0x8000u) << 16);
  }
  HONE_INLINE unsigned short Pack(float x) {
    const unsigned bits = hone_bits(x), magnitude = bits & 0x7fffffffu;
    const unsigned normal = (magnitude - 0x38000000u + 0xfffu + (magnitude >> 13 & 1)) >> 13;
    const unsigned subnormal = hone_bits(hone_float(magnitude) + 0.5f) - 0x3f000000u;  // 0.5's last bit is worth 2^-24
    unsigned result = magnitude < 0x38800000u ? subnormal : normal;
    result = magnitude >= 0x477ff000u ? 0x7c00u : result;
    result = magnitude > 0x7f800000u ? 0x7fffu : result;
    return (unsigned short)(magnitude > 0x7f800000u ? result : result | (bits >> 16 & 0x8000u));
  }
};

struct HoneBFloat16 {
  HONE_INLINE float Unpack(unsigned short bits) { return hone_float((unsigned)bits << 16); }
  HONE_INLINE unsigned short Pack(float x) {
    const unsigned bits = hone_bits(x);
    return (unsigned short)((bits & 0x7fffffffu) > 0x7f800000u ? 0x7fffu : (bits + 0x7fffu + (bits >> 16 & 1)) >> 16);
  }
};

// Of a number between two floats the one with an odd last bit: what is then rounded to 16 bits is rounded as if at once.
HONE_INLINE float hone_odd(float nearest, double rest) {
  const unsigned bits = hone_bits(nearest);
  const bool toward_zero = (rest < 0) != (nearest < 0);
  const unsigned odd = bits & 1 ? bits : toward_zero ? bits - 1 : bits + 1;
  return rest != 0 && nearest == nearest && (nearest != 0) ? hone_float(odd) : nearest;
}
HONE_INLINE float hone_narrow(double x) {
  const float nearest = (float)x;
  if (__builtin_isinf(nearest)) return __builtin_isinf(x) ? nearest : hone_float(hone_bits(nearest) - 1);
  return hone_odd(nearest, x - nearest);
}
// x * y + z where the product of two 16-bit numbers is exact in double, and in float too unless it is subnormal.
HONE_INLINE float hone_small_fma(float x, float y, float z) {
  const double product = (double)x * y, sum = product + z;
  const double part = sum - product, rest = (product - (sum - part)) + (z - part);
  if (!__builtin_isfinite(sum)) return (float)sum;
  unsigned long long bits;
  __builtin_memcpy(&bits, &sum, sizeof bits);
  const double odd_sum = [&] {
    if (rest == 0 || sum == 0 || (bits & 1)) return sum;
    bits += (rest < 0) != (sum < 0) ? -1ull : 1ull;
    double odd;
    __builtin_memcpy(&odd, &bits, sizeof odd);
    return odd;
  }();
  return hone_narrow(odd_sum);
}
// To an integer: towards zero, to the type's ends beyond them, 0 for NaN.
template <class Integer>
HONE_INLINE Integer hone_saturate(float x) {
  constexpr bool is_signed = (Integer)-1 < (Integer)0;
  constexpr Integer most = (Integer)(is_signed ? ~(1ull << (8 * sizeof(Integer) - 1)) : ~0ull);
  constexpr Integer least = is_signed ? (Integer)(-most - 1) : (Integer)0;
  if (x != x) return 0;
  return x >= (float)most ? most : x <= (float)least ? least : (Integer)x;
}
#endif  // HONE_SMALL_FLOAT_BITS_H_
