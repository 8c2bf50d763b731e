// cuda_fp16.h, cuda_bf16.h and cooperative_groups.h of the CPU backend, against arithmetic on the formats' definitions.

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <functional>
#include <limits>
#include <numeric>
#include <random>

#include "builder_bench.h"

namespace hone::test {
namespace {

__extension__ typedef __float128 Exact;  // 113 bits

std::string Kernel(const std::string& name) { return ReadFile(std::string(HONE_KERNELS) + "/" + name).value(); }

/// A 16-bit format by its definition: sign, exponent, mantissa; subnormals; rounding by search among all its values.
class Format {
 public:
  Format(int exponent_bits, int mantissa_bits) : mantissa_bits_(mantissa_bits), bias_((1 << (exponent_bits - 1)) - 1) {
    infinity_ = static_cast<uint16_t>(((1 << exponent_bits) - 1) << mantissa_bits);
    for (int pattern = 0; pattern <= infinity_; ++pattern) magnitudes_.push_back(Magnitude(pattern));
  }
  uint16_t infinity() const { return infinity_; }
  bool IsNan(uint16_t pattern) const { return (pattern & 0x7fff) > infinity_; }
  double Value(uint16_t pattern) const {
    if (IsNan(pattern)) return std::numeric_limits<double>::quiet_NaN();
    const int magnitude = pattern & 0x7fff;
    const double value = magnitude == infinity_ ? std::numeric_limits<double>::infinity() : magnitudes_[magnitude];
    return pattern & 0x8000 ? -value : value;
  }
  /// The pattern at or below |x|, as if there were numbers beyond the largest.
  uint16_t Below(Exact magnitude) const {
    const auto above = std::upper_bound(magnitudes_.begin(), magnitudes_.end(), magnitude);
    return static_cast<uint16_t>(above - magnitudes_.begin() - 1);
  }
  uint16_t Nearest(Exact x, bool negative) const {
    const Exact magnitude = negative ? -x : x;
    uint16_t pattern = infinity_;
    if (magnitude < magnitudes_[infinity_]) {
      pattern = Below(magnitude);
      const Exact middle = (Exact(magnitudes_[pattern]) + magnitudes_[pattern + 1]) / 2;
      if (magnitude > middle || (magnitude == middle && (pattern & 1) != 0)) ++pattern;
    }
    return static_cast<uint16_t>(pattern | (negative ? 0x8000 : 0));
  }
  /// Of a result that is exact in double or far enough from the middle of two numbers; NaN is 0x7fff.
  uint16_t Nearest(double x) const {
    if (std::isnan(x)) return 0x7fff;
    if (std::isinf(x)) return static_cast<uint16_t>(infinity_ | (x < 0 ? 0x8000 : 0));
    return Nearest(Exact(x), std::signbit(x));
  }
  /// Towards zero, or the next number away from it where x lies beyond that.
  uint16_t Directed(double x, bool away) const {
    if (std::isnan(x)) return 0x7fff;
    const double magnitude = std::abs(x);
    uint16_t pattern = std::isinf(x) ? infinity_ : std::min<uint16_t>(Below(magnitude), infinity_ - 1);
    if (away && !std::isinf(x) && magnitudes_[pattern] != magnitude) ++pattern;
    return static_cast<uint16_t>(pattern | (std::signbit(x) ? 0x8000 : 0));
  }

 private:
  /// Of a pattern without sign. Infinity's is the number that would come next.
  double Magnitude(int pattern) const {
    const int exponent = pattern >> mantissa_bits_, mantissa = pattern & ((1 << mantissa_bits_) - 1);
    if (exponent == 0) return std::ldexp(mantissa, 1 - bias_ - mantissa_bits_);
    return std::ldexp((1 << mantissa_bits_) + mantissa, exponent - bias_ - mantissa_bits_);
  }

  int mantissa_bits_;
  int bias_;
  uint16_t infinity_;
  std::vector<double> magnitudes_;  // by pattern, ascending
};

uint16_t FusedMultiplyAdd(const Format& format, double x, double y, double z) {
  const double rough = x * y + z;
  if (!std::isfinite(x) || !std::isfinite(y) || !std::isfinite(z)) return format.Nearest(rough);
  const Exact product = Exact(x) * y;
  Exact exact = product + z;
  // A product in the middle of two numbers is in the middle no longer, however small z is.
  if (exact == product && z != 0) exact *= (z < 0) == (product < 0) ? 1 + Exact(0x1p-110) : 1 - Exact(0x1p-110);
  return exact == 0 ? format.Nearest(rough) : format.Nearest(exact, exact < 0);
}

uint16_t Extreme(const Format& format, uint16_t a, uint16_t b, bool largest) {
  if (format.IsNan(a)) return format.IsNan(b) ? 0x7fff : b;
  if (format.IsNan(b)) return a;
  const double x = format.Value(a), y = format.Value(b);
  if (x == y && x == 0) return largest ? a & b : a | b;  // the sign is the only bit
  return (x > y) == largest ? a : b;
}

double AsInteger(double x) {
  if (std::isnan(x)) return 0;
  return static_cast<float>(std::clamp(x, -2147483648.0, 2147483647.0));
}

void CheckFormat(const Format& format, DType dtype, const std::string& source) {
  constexpr int n = 65536;
  std::mt19937 random(1);
  std::vector<uint16_t> x(n), y(n), z(n);
  std::vector<float> f(n);
  for (int i = 0; i < n; ++i) {
    x[i] = static_cast<uint16_t>(i);
    // Half of the operands are near each other in size: far apart, sums and comparisons ask little.
    y[i] = static_cast<uint16_t>(i % 2 == 0 ? random() : i ^ (random() & 0x83ff));
    z[i] = static_cast<uint16_t>(i % 3 == 0 ? random()
                                            : format.Nearest(-format.Value(x[i]) * format.Value(y[i])) + random() % 3);
    const uint32_t bits = static_cast<uint32_t>(random());
    std::memcpy(&f[i], &bits, sizeof bits);
    const auto pattern = static_cast<uint16_t>(i & ~1);
    const double low = format.Value(pattern), next = format.Value(pattern + 1);
    if (i % 4 == 1) f[i] = static_cast<float>((low + next) / 2);  // ties
    if (i % 4 == 2) f[i] = std::nextafter(static_cast<float>((low + next) / 2), i % 8 == 2 ? 1e38f : -1e38f);
    if (i % 4 == 3) f[i] = static_cast<float>(low);
  }
  const Signature signature = MakeSignature(
      {Input("x", dtype), Input("y", dtype), Input("z", dtype), Input("f"), Output("out", dtype), Output("back")},
      {"n"});
  const Call call = {{BytesOf(x), BytesOf(y), BytesOf(z), Bytes(f), BytesOf(std::vector<uint16_t>(17 * n)),
                      Bytes(std::vector<float>(3 * n))},
                     {n},
                     {}};
  BuilderBench bench;
  const Outcome outcome = bench.Run(source, signature, call);
  const std::vector<uint16_t> out = ValuesOf<uint16_t>(outcome.tensors[4]);
  const std::vector<float> back = Floats(outcome.tensors[5]);

  const auto value = [&](uint16_t pattern) { return format.Value(pattern); };
  const std::vector<std::pair<std::string, std::function<uint16_t(int)>>> columns = {
      {"to nearest", [&](int i) { return format.Nearest(f[i]); }},
      {"towards zero", [&](int i) { return format.Directed(f[i], false); }},
      {"down", [&](int i) { return format.Directed(f[i], std::signbit(f[i])); }},
      {"up", [&](int i) { return format.Directed(f[i], !std::signbit(f[i])); }},
      {"+", [&](int i) { return format.Nearest(value(x[i]) + value(y[i])); }},
      {"-", [&](int i) { return format.Nearest(value(x[i]) - value(y[i])); }},
      {"*", [&](int i) { return format.Nearest(value(x[i]) * value(y[i])); }},
      {"/", [&](int i) { return format.Nearest(value(x[i]) / value(y[i])); }},
      {"fma", [&](int i) { return FusedMultiplyAdd(format, value(x[i]), value(y[i]), value(z[i])); }},
      {"max", [&](int i) { return Extreme(format, x[i], y[i], true); }},
      {"min", [&](int i) { return Extreme(format, x[i], y[i], false); }},
      {"negation", [&](int i) { return static_cast<uint16_t>(x[i] ^ 0x8000); }},
      {"absolute value", [&](int i) { return static_cast<uint16_t>(x[i] & 0x7fff); }},
      {"square root", [&](int i) { return format.Nearest(std::sqrt(value(x[i]))); }},
      {"comparisons",
       [&](int i) {
         const double a = value(x[i]), b = value(y[i]);
         return format.Nearest((a < b ? 1.0 : 0.0) + (a >= b ? 2.0 : 0.0) + (!(a >= b) ? 4.0 : 0.0));
       }},
      {"sums of pairs", [&](int i) { return format.Nearest(value(x[i]) + value(y[i])); }},
      {"swapped products of pairs", [&](int i) { return format.Nearest(value(x[i ^ 1]) * value(y[i ^ 1])); }},
  };
  for (size_t c = 0; c < columns.size(); ++c) {
    int wrong = 0;
    for (int i = 0; i < n; ++i) {
      const uint16_t got = out[c * n + i], want = columns[c].second(i);
      if (got == want || (format.IsNan(got) && format.IsNan(want))) continue;
      INFO(columns[c].first << " of " << x[i] << ", " << y[i] << ", " << z[i] << " or " << f[i] << " is " << got
                            << ", should be " << want);
      if (++wrong <= 3) CHECK(got == want);
    }
    INFO(columns[c].first);
    CHECK(wrong == 0);
  }
  int wrong = 0;
  for (int i = 0; i < n; ++i) {
    const double want = value(x[i]);
    wrong += (std::isnan(want) ? !std::isnan(back[i]) : back[i] != want) ||
             back[n + i] != AsInteger(std::trunc(want)) || back[2 * n + i] != AsInteger(std::nearbyint(want));
  }
  CHECK(wrong == 0);
}

TEST_CASE("half rounds, computes and compares as binary16 does", "[verifier][build][cpu]") {
  CheckFormat(Format(5, 10), DType::kFloat16, Kernel("small_float.cu"));
}

TEST_CASE("bfloat16 rounds, computes and compares as float's upper half does", "[verifier][build][cpu]") {
  CheckFormat(Format(8, 7), DType::kBFloat16, "#define USE_BFLOAT16\n" + Kernel("small_float.cu"));
}

TEST_CASE("Values known by hand: 1/3, 65504, the least subnormal", "[verifier][build][cpu]") {
  // IEEE 754-2008 binary16: 1/3 is 0x3555, the largest number 65504 is 0x7bff, the least 2^-24 is 0x0001.
  const Format half(5, 10);
  CHECK(half.Nearest(1.0 / 3) == 0x3555);
  CHECK(half.Nearest(65504) == 0x7bff);
  CHECK(half.Nearest(65519.996) == 0x7bff);
  CHECK(half.Nearest(65520) == 0x7c00);
  CHECK(half.Nearest(0x1p-24) == 0x0001);
  CHECK(half.Nearest(0x1p-25) == 0x0000);
  CHECK(Format(8, 7).Nearest(1.0 / 3) == 0x3eab);
  CHECK(Format(8, 7).Nearest(3.140625) == 0x4049);
}

TEST_CASE("Cooperative groups: the block, tiles of it and of warps, shuffles, votes, reductions",
          "[verifier][build][cpu]") {
  constexpr int n = 128;
  std::vector<int32_t> x(n);
  for (int i = 0; i < n; ++i) x[i] = (i * 37 + 11) % 101;
  const Signature signature = MakeSignature({Input("x", DType::kInt32), Output("out", DType::kInt32)}, {"n"});
  BuilderBench bench;
  const Outcome outcome =
      bench.Run(Kernel("groups.cu"), signature, {{BytesOf(x), BytesOf(std::vector<int32_t>(13 * n))}, {n}, {}});
  const std::vector<int32_t> out = ValuesOf<int32_t>(outcome.tensors[1]);
  for (int i = 0; i < n; ++i) {
    INFO("thread " << i);
    const auto warp = x.begin() + i / 32 * 32, eight = x.begin() + i / 8 * 8, four = x.begin() + i / 4 * 4;
    const auto column = [&](int c) { return out[c * n + i]; };
    CHECK(column(0) == x[(i + 64) % 128]);
    CHECK(column(1) == std::accumulate(warp, warp + 32, 0));
    CHECK(column(2) == *std::max_element(eight, eight + 8));
    CHECK(column(3) == *std::min_element(four, four + 4));
    CHECK(column(4) == eight[3]);
    CHECK(column(5) == (i % 8 < 6 ? x[i + 2] : x[i]));
    CHECK(column(6) == (i % 8 >= 2 ? x[i - 2] : x[i]));
    CHECK(column(7) == x[i ^ 1]);
    int ballot = 0;
    for (int k = 0; k < 8; ++k) ballot |= (eight[k] > 64) << k;
    CHECK(column(8) == ballot);
    CHECK(column(9) == std::any_of(four, four + 4, [](int v) { return v == 5; }) +
                           2 * std::all_of(four, four + 4, [](int v) { return v > 5; }));
    CHECK(column(10) == i / 8 * 100 + i % 8);
    CHECK(column(11) == 2 * eight[7]);
    CHECK(column(12) == i);
  }
}

}  // namespace
}  // namespace hone::test
