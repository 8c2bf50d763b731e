#include "policy/model/cpu_kernels.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#if defined(__x86_64__) && !defined(__clang__)
#include <immintrin.h>
#endif

// Each entry point is compiled for three instruction sets and picked at load time.
#if defined(__x86_64__) && !defined(__clang__)
#define HONE_CLONES __attribute__((target_clones("default", "arch=x86-64-v3", "arch=x86-64-v4")))
#else
#define HONE_CLONES
#endif
#define HONE_INLINE inline __attribute__((always_inline))

namespace hone::policy::cpu {
namespace {

typedef float Vec __attribute__((vector_size(64), aligned(4), may_alias));
typedef int32_t IntVec __attribute__((vector_size(64), aligned(4), may_alias));
constexpr int64_t kLanes = 16;

HONE_INLINE Vec Load(const float* p) { return *reinterpret_cast<const Vec*>(p); }
HONE_INLINE void Store(float* p, Vec v) { *reinterpret_cast<Vec*>(p) = v; }

// exp for all lanes: 2^n * polynomial on [-ln2/2, ln2/2] (Cephes' coefficients), relative error below 2e-7.
HONE_INLINE Vec Exp(Vec x) {
  const Vec low = Vec{} - 87.3f, high = Vec{} + 88.3f;
  x = x < low ? low : x;
  x = x > high ? high : x;
  const Vec magic = Vec{} + 12582912.0f;  // 1.5 * 2^23: adding it rounds to an integer
  const Vec shifted = x * 1.44269504088896341f + magic;
  const Vec n = shifted - magic;
  const Vec r = (x - n * 0.693359375f) - n * -2.12194440e-4f;
  Vec p = r * 1.9875691500e-4f + 1.3981999507e-3f;
  p = p * r + 8.3334519073e-3f;
  p = p * r + 4.1665795894e-2f;
  p = p * r + 1.6666665459e-1f;
  p = p * r + 5.0000001201e-1f;
  p = p * (r * r) + r + 1.0f;
  const IntVec bits = (reinterpret_cast<const IntVec&>(shifted) - reinterpret_cast<const IntVec&>(magic) + 127) << 23;
  return p * reinterpret_cast<const Vec&>(bits);
}

typedef uint32_t BitVec __attribute__((vector_size(64), aligned(2), may_alias));

// Of 16 pairs of bf16 the first or second numbers.
HONE_INLINE Vec FirstOf(BitVec pairs) {
  const BitVec bits = pairs << 16;
  return reinterpret_cast<const Vec&>(bits);
}
HONE_INLINE Vec SecondOf(BitVec pairs) {
  const BitVec bits = pairs & 0xffff0000u;
  return reinterpret_cast<const Vec&>(bits);
}
HONE_INLINE BitVec LoadPairs(const uint16_t* p) { return *reinterpret_cast<const BitVec*>(p); }
HONE_INLINE float ToFloat(uint16_t half) {
  const uint32_t bits = static_cast<uint32_t>(half) << 16;
  float value;
  std::memcpy(&value, &bits, sizeof value);
  return value;
}

HONE_INLINE float Sum(Vec v) {
  float s[kLanes];
  Store(s, v);
  for (int step = 8; step > 0; step /= 2) {
    for (int i = 0; i < step; ++i) s[i] += s[i + step];
  }
  return s[0];
}

HONE_INLINE float Max(Vec v) {
  float m = v[0];
  for (int i = 1; i < kLanes; ++i) m = std::max(m, v[i]);
  return m;
}

HONE_INLINE IntVec LaneIndex() { return IntVec{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15}; }

// Lanes [count, 16) of a load that may not touch memory beyond `count`.
HONE_INLINE Vec LoadPart(const float* p, int64_t count, float fill) {
  float lanes[kLanes];
  for (int64_t i = 0; i < kLanes; ++i) lanes[i] = i < count ? p[i] : fill;
  return Load(lanes);
}

// The end of a tile of the matrix product, kRows rows by one panel: bias, and into y.
template <int kRows>
HONE_INLINE void StoreTile(Vec (&sum)[kRows][2], const float* bias, int64_t columns, float* y, int64_t out) {
  if (bias != nullptr) {
    const Vec b0 = LoadPart(bias, columns, 0), b1 = LoadPart(bias + kLanes, columns - kLanes, 0);
    for (int r = 0; r < kRows; ++r) {
      sum[r][0] += b0;
      sum[r][1] += b1;
    }
  }
  for (int r = 0; r < kRows; ++r) {
    if (columns == kPanel) {
      Store(y + r * out, sum[r][0]);
      Store(y + r * out + kLanes, sum[r][1]);
    } else {
      float row[kPanel];
      Store(row, sum[r][0]);
      Store(row + kLanes, sum[r][1]);
      std::memcpy(y + r * out, row, sizeof(float) * columns);
    }
  }
}

// Every element of a tile is one chain of fused multiply-adds over k.
struct FullTile {
  template <int kRows>
  static HONE_INLINE void Run(const float* x, int64_t in, const float* panel, const float* bias, int64_t columns, float* y, int64_t out) {
    Vec sum[kRows][2];
    for (int r = 0; r < kRows; ++r) sum[r][0] = sum[r][1] = Vec{};
    for (int64_t k = 0; k < in; ++k) {
      const Vec w0 = Load(panel + k * kPanel);
      const Vec w1 = Load(panel + k * kPanel + kLanes);
      for (int r = 0; r < kRows; ++r) {
        sum[r][0] += x[r * in + k] * w0;
        sum[r][1] += x[r * in + k] * w1;
      }
    }
    StoreTile(sum, bias, columns, y, out);
  }
};

// The same of bf16, `in` even. Of a pair the second is added first, as the instruction for pairs does it.
struct HalfTile {
  template <int kRows>
  static HONE_INLINE void Run(const uint16_t* x, int64_t in, const uint16_t* panel, const float* bias, int64_t columns, float* y, int64_t out) {
    Vec sum[kRows][2];
    for (int r = 0; r < kRows; ++r) sum[r][0] = sum[r][1] = Vec{};
    for (int64_t k = 0; k < in; k += 2) {
      const BitVec w0 = LoadPairs(panel + k * kPanel), w1 = LoadPairs(panel + k * kPanel + 2 * kLanes);
      const Vec first0 = FirstOf(w0), second0 = SecondOf(w0), first1 = FirstOf(w1), second1 = SecondOf(w1);
      for (int r = 0; r < kRows; ++r) {
        const float first = ToFloat(x[r * in + k]), second = ToFloat(x[r * in + k + 1]);
        sum[r][0] += second * second0;
        sum[r][1] += second * second1;
        sum[r][0] += first * first0;
        sum[r][1] += first * first1;
      }
    }
    StoreTile(sum, bias, columns, y, out);
  }
};

#if defined(__x86_64__) && !defined(__clang__)
#define HONE_PAIRS __attribute__((target("arch=x86-64-v4,avx512bf16")))

// With the instruction that multiplies pairs of bf16.
struct PairTile {
  template <int kRows>
  HONE_PAIRS static inline void Run(const uint16_t* x, int64_t in, const uint16_t* panel, const float* bias, int64_t columns, float* y, int64_t out) {
    __m512 sum[kRows][2];
    for (int r = 0; r < kRows; ++r) sum[r][0] = sum[r][1] = _mm512_setzero_ps();
    for (int64_t k = 0; k < in; k += 2) {
      const __m512bh w0 = reinterpret_cast<__m512bh>(_mm512_loadu_si512(panel + k * kPanel));
      const __m512bh w1 = reinterpret_cast<__m512bh>(_mm512_loadu_si512(panel + k * kPanel + 2 * kLanes));
      for (int r = 0; r < kRows; ++r) {
        int pair;
        std::memcpy(&pair, x + r * in + k, sizeof pair);
        const __m512bh both = reinterpret_cast<__m512bh>(_mm512_set1_epi32(pair));
        sum[r][0] = _mm512_dpbf16_ps(sum[r][0], w0, both);
        sum[r][1] = _mm512_dpbf16_ps(sum[r][1], w1, both);
      }
    }
    StoreTile(reinterpret_cast<Vec(&)[kRows][2]>(sum), bias, columns, y, out);
  }
};
#endif

HONE_INLINE Vec TanhVec(Vec x) {
  const Vec e = Exp(x + x);
  return 1.0f - 2.0f / (e + 1.0f);
}

struct Gate {
  Vec value;
  Vec slope;
};

HONE_INLINE Gate Activate(Vec x, Activation activation) {
  if (activation == Activation::kSilu) {
    const Vec s = 1.0f / (1.0f + Exp(-x));
    return {x * s, s * (1.0f + x * (1.0f - s))};
  }
  constexpr float kA = 0.7978845608028654f, kB = 0.044715f;  // sqrt(2 / pi)
  const Vec t = TanhVec(kA * (x + kB * x * x * x));
  return {0.5f * x * (1.0f + t), 0.5f * (1.0f + t) + 0.5f * x * (1.0f - t * t) * kA * (1.0f + 3.0f * kB * x * x)};
}

// kGroup: numbers of k that lie beside each other.
template <int64_t kGroup, class Weight>
HONE_INLINE void PackPanels(const Weight* weight, int64_t out, int64_t in, int64_t panel_begin, int64_t panel_end, Weight* packed) {
  const int64_t padded = (in + kGroup - 1) / kGroup * kGroup;
  for (int64_t p = panel_begin; p < panel_end; ++p) {
    Weight* panel = packed + p * kPanel * padded;
    const int64_t columns = std::min(kPanel, out - p * kPanel);
    if (columns < kPanel || padded > in) std::memset(panel, 0, sizeof(Weight) * kPanel * padded);
    for (int64_t k0 = 0; k0 < in; k0 += kLanes) {
      const int64_t k1 = std::min(in, k0 + kLanes);
      for (int64_t n = 0; n < columns; ++n) {
        const Weight* row = weight + (p * kPanel + n) * in;
        for (int64_t k = k0; k < k1; ++k) panel[k / kGroup * kGroup * kPanel + n * kGroup + k % kGroup] = row[k];
      }
    }
  }
}

// `in` numbers a row, in x as in the panels.
template <class Tile, class Number>
HONE_INLINE void LinearPanels(const Number* x, const Number* packed, const float* bias, int64_t in, int64_t out, int64_t row_begin,
                              int64_t row_end, int64_t panel_begin, int64_t panel_end, float* y) {
  for (int64_t p = panel_begin; p < panel_end; ++p) {
    const Number* panel = packed + p * kPanel * in;
    const float* b = bias == nullptr ? nullptr : bias + p * kPanel;
    const int64_t columns = std::min(kPanel, out - p * kPanel);
    int64_t r = row_begin;
    for (; r + 8 <= row_end; r += 8) Tile::template Run<8>(x + r * in, in, panel, b, columns, y + r * out + p * kPanel, out);
    const Number* xr = x + r * in;
    float* yr = y + r * out + p * kPanel;
    switch (row_end - r) {
      case 7: Tile::template Run<7>(xr, in, panel, b, columns, yr, out); break;
      case 6: Tile::template Run<6>(xr, in, panel, b, columns, yr, out); break;
      case 5: Tile::template Run<5>(xr, in, panel, b, columns, yr, out); break;
      case 4: Tile::template Run<4>(xr, in, panel, b, columns, yr, out); break;
      case 3: Tile::template Run<3>(xr, in, panel, b, columns, yr, out); break;
      case 2: Tile::template Run<2>(xr, in, panel, b, columns, yr, out); break;
      case 1: Tile::template Run<1>(xr, in, panel, b, columns, yr, out); break;
      default: break;
    }
  }
}

HONE_CLONES void LinearOfHalves(const uint16_t* x, const uint16_t* packed, const float* bias, int64_t in, int64_t out, int64_t row_begin,
                                int64_t row_end, int64_t panel_begin, int64_t panel_end, float* y) {
  LinearPanels<HalfTile>(x, packed, bias, in, out, row_begin, row_end, panel_begin, panel_end, y);
}

#ifdef HONE_PAIRS
HONE_PAIRS void LinearOfPairs(const uint16_t* x, const uint16_t* packed, const float* bias, int64_t in, int64_t out, int64_t row_begin,
                              int64_t row_end, int64_t panel_begin, int64_t panel_end, float* y) {
  LinearPanels<PairTile>(x, packed, bias, in, out, row_begin, row_end, panel_begin, panel_end, y);
}
#endif

}  // namespace

int64_t PackedWeightSize(int64_t out, int64_t in) { return (out + kPanel - 1) / kPanel * kPanel * in; }
int64_t PackedHalfSize(int64_t out, int64_t in) { return PackedWeightSize(out, in + in % 2); }

HONE_CLONES void PackWeight(const float* weight, int64_t out, int64_t in, int64_t panel_begin, int64_t panel_end,
                            float* packed) {
  PackPanels<1>(weight, out, in, panel_begin, panel_end, packed);
}

HONE_CLONES void PackWeight(const uint16_t* weight, int64_t out, int64_t in, int64_t panel_begin, int64_t panel_end,
                            uint16_t* packed) {
  PackPanels<2>(weight, out, in, panel_begin, panel_end, packed);
}

HONE_CLONES void RoundRows(const float* x, int64_t in, int64_t row_begin, int64_t row_end, uint16_t* y) {
  const int64_t padded = in + in % 2;
  for (int64_t r = row_begin; r < row_end; ++r) {
    uint16_t* to = y + r * padded;
    for (int64_t k = 0; k < in; ++k) {
      uint32_t bits;
      std::memcpy(&bits, x + r * in + k, sizeof bits);
      const uint32_t rounded = bits + 0x7fff + (bits >> 16 & 1);
      to[k] = static_cast<uint16_t>(((bits & 0x7fffffff) > 0x7f800000 ? bits | 0x400000 : rounded) >> 16);
    }
    if (padded > in) to[in] = 0;
  }
}

HONE_CLONES void PackMatrix(const float* matrix, int64_t out, int64_t in, int64_t panel_begin, int64_t panel_end,
                            float* packed) {
  for (int64_t p = panel_begin; p < panel_end; ++p) {
    float* panel = packed + p * kPanel * in;
    const int64_t columns = std::min(kPanel, out - p * kPanel);
    if (columns < kPanel) std::memset(panel, 0, sizeof(float) * kPanel * in);
    for (int64_t k = 0; k < in; ++k) std::memcpy(panel + k * kPanel, matrix + k * out + p * kPanel, sizeof(float) * columns);
  }
}

HONE_CLONES void Linear(const float* x, const float* packed, const float* bias, int64_t in, int64_t out,
                        int64_t row_begin, int64_t row_end, int64_t panel_begin, int64_t panel_end, float* y) {
  LinearPanels<FullTile>(x, packed, bias, in, out, row_begin, row_end, panel_begin, panel_end, y);
}

void Linear(const uint16_t* x, const uint16_t* packed, const float* bias, int64_t in, int64_t out, int64_t row_begin,
            int64_t row_end, int64_t panel_begin, int64_t panel_end, float* y) {
#ifdef HONE_PAIRS
  static const bool has_pairs = __builtin_cpu_supports("avx512bf16");
  if (has_pairs) return LinearOfPairs(x, packed, bias, in + in % 2, out, row_begin, row_end, panel_begin, panel_end, y);
#endif
  LinearOfHalves(x, packed, bias, in + in % 2, out, row_begin, row_end, panel_begin, panel_end, y);
}

HONE_CLONES void RmsNorm(const float* x, const float* weight, float offset, float eps, int64_t dim, int64_t row_begin,
                         int64_t row_end, float* y, float* inverse_rms) {
  for (int64_t r = row_begin; r < row_end; ++r) {
    const float* xr = x + r * dim;
    Vec squares = Vec{};
    int64_t i = 0;
    for (; i + kLanes <= dim; i += kLanes) squares += Load(xr + i) * Load(xr + i);
    float sum = Sum(squares);
    for (; i < dim; ++i) sum += xr[i] * xr[i];
    const float inverse = 1.0f / std::sqrt(sum / static_cast<float>(dim) + eps);
    inverse_rms[r] = inverse;
    for (int64_t j = 0; j < dim; ++j) y[r * dim + j] = xr[j] * inverse * (weight[j] + offset);
  }
}

HONE_CLONES void RmsNormBackward(const float* x, const float* weight, float offset, const float* inverse_rms,
                                 const float* dy, int64_t dim, int64_t row_begin, int64_t row_end, float* dx,
                                 float* dweight) {
  for (int64_t r = row_begin; r < row_end; ++r) {
    const float* xr = x + r * dim;
    const float* gr = dy + r * dim;
    const float inverse = inverse_rms[r];
    Vec dots = Vec{};
    int64_t i = 0;
    for (; i + kLanes <= dim; i += kLanes) dots += Load(gr + i) * (Load(weight + i) + offset) * Load(xr + i);
    float dot = Sum(dots);
    for (; i < dim; ++i) dot += gr[i] * (weight[i] + offset) * xr[i];
    const float pull = dot * inverse * inverse * inverse / static_cast<float>(dim);
    for (int64_t j = 0; j < dim; ++j) {
      dx[r * dim + j] = gr[j] * (weight[j] + offset) * inverse - xr[j] * pull;
      dweight[j] += gr[j] * xr[j] * inverse;
    }
  }
}

HONE_CLONES void Rope(const float* x, const float* cos, const float* sin, float sign, int64_t width, int64_t heads,
                      int64_t head_dim, int64_t row_begin, int64_t row_end, float* y) {
  const int64_t half = head_dim / 2;
  for (int64_t r = row_begin; r < row_end; ++r) {
    const float* c = cos + r * half;
    const float* s = sin + r * half;
    for (int64_t h = 0; h < heads; ++h) {
      const float* in = x + r * width + h * head_dim;
      float* out = y + r * width + h * head_dim;
      for (int64_t i = 0; i < half; ++i) {
        const float a = in[i], b = in[i + half], t = sign * s[i];
        out[i] = a * c[i] - b * t;
        out[i + half] = b * c[i] + a * t;
      }
    }
    const int64_t rotated = heads * head_dim;
    if (y != x) std::memcpy(y + r * width + rotated, x + r * width + rotated, sizeof(float) * (width - rotated));
  }
}

HONE_CLONES void GatedActivation(const float* gate_up, Activation activation, int64_t width, int64_t row_begin,
                                 int64_t row_end, float* y) {
  for (int64_t r = row_begin; r < row_end; ++r) {
    const float* gate = gate_up + r * 2 * width;
    const float* up = gate + width;
    int64_t i = 0;
    for (; i + kLanes <= width; i += kLanes) Store(y + r * width + i, Activate(Load(gate + i), activation).value * Load(up + i));
    if (i < width) {
      float part[kLanes];
      Store(part, Activate(LoadPart(gate + i, width - i, 0), activation).value * LoadPart(up + i, width - i, 0));
      std::memcpy(y + r * width + i, part, sizeof(float) * (width - i));
    }
  }
}

HONE_CLONES void GatedActivationBackward(const float* gate_up, const float* dy, Activation activation, int64_t width,
                                         int64_t row_begin, int64_t row_end, float* dgate_up) {
  for (int64_t r = row_begin; r < row_end; ++r) {
    const float* gate = gate_up + r * 2 * width;
    const float* up = gate + width;
    float* dgate = dgate_up + r * 2 * width;
    float* dup = dgate + width;
    const float* g = dy + r * width;
    int64_t i = 0;
    for (; i + kLanes <= width; i += kLanes) {
      const Gate a = Activate(Load(gate + i), activation);
      Store(dup + i, Load(g + i) * a.value);
      Store(dgate + i, Load(g + i) * Load(up + i) * a.slope);
    }
    if (i < width) {
      const int64_t count = width - i;
      const Gate a = Activate(LoadPart(gate + i, count, 0), activation);
      const Vec gv = LoadPart(g + i, count, 0);
      float part[kLanes];
      Store(part, gv * a.value);
      std::memcpy(dup + i, part, sizeof(float) * count);
      Store(part, gv * LoadPart(up + i, count, 0) * a.slope);
      std::memcpy(dgate + i, part, sizeof(float) * count);
    }
  }
}

namespace {

// scores[j] = scale * q . k_j for the blocks that hold [first, length); lanes outside get -infinity.
HONE_INLINE void Scores(const float* query, const float* const* keys, int64_t first, int64_t length, int64_t head_dim,
                        float scale, float* scores) {
  const int64_t block_begin = first / kKeyBlock, block_end = (length + kKeyBlock - 1) / kKeyBlock;
  int64_t b = block_begin;
  for (; b + 4 <= block_end; b += 4) {
    Vec s0 = Vec{}, s1 = Vec{}, s2 = Vec{}, s3 = Vec{};
    const float *k0 = keys[b], *k1 = keys[b + 1], *k2 = keys[b + 2], *k3 = keys[b + 3];
    for (int64_t d = 0; d < head_dim; ++d) {
      const float q = query[d];
      s0 += q * Load(k0 + d * kKeyBlock);
      s1 += q * Load(k1 + d * kKeyBlock);
      s2 += q * Load(k2 + d * kKeyBlock);
      s3 += q * Load(k3 + d * kKeyBlock);
    }
    float* out = scores + (b - block_begin) * kKeyBlock;
    Store(out, s0 * scale);
    Store(out + kKeyBlock, s1 * scale);
    Store(out + 2 * kKeyBlock, s2 * scale);
    Store(out + 3 * kKeyBlock, s3 * scale);
  }
  for (; b < block_end; ++b) {
    Vec s = Vec{};
    const float* k = keys[b];
    for (int64_t d = 0; d < head_dim; ++d) s += query[d] * Load(k + d * kKeyBlock);
    Store(scores + (b - block_begin) * kKeyBlock, s * scale);
  }
  constexpr float kNever = -std::numeric_limits<float>::infinity();
  for (int64_t j = block_begin * kKeyBlock; j < first; ++j) scores[j - block_begin * kKeyBlock] = kNever;
  for (int64_t j = length; j < block_end * kKeyBlock; ++j) scores[j - block_begin * kKeyBlock] = kNever;
}

// exp(score - shift) with exact zeros where the score is -infinity.
HONE_INLINE Vec Probability(Vec score, float shift) {
  const Vec p = Exp(score - shift);
  return score < -3.0e38f ? Vec{} : p;
}

HONE_INLINE void AddScaled(float* to, float factor, const float* from, int64_t count) {
  for (int64_t d = 0; d < count; ++d) to[d] += factor * from[d];
}

}  // namespace

int64_t AttendScratch(int64_t length) { return 2 * ((length + kKeyBlock - 1) / kKeyBlock + 1) * kKeyBlock; }

HONE_CLONES float Attend(const float* query, const KeyValueBlocks& blocks, int64_t first, int64_t length,
                         int64_t head_dim, float scale, float* scratch, float* out) {
  Scores(query, blocks.keys, first, length, head_dim, scale, scratch);
  const int64_t block_begin = first / kKeyBlock, block_end = (length + kKeyBlock - 1) / kKeyBlock;
  const int64_t count = block_end - block_begin;
  Vec peak = Load(scratch);
  for (int64_t b = 1; b < count; ++b) {
    const Vec s = Load(scratch + b * kKeyBlock);
    peak = s > peak ? s : peak;
  }
  const float top = Max(peak);
  Vec sums = Vec{};
  for (int64_t b = 0; b < count; ++b) {
    const Vec p = Probability(Load(scratch + b * kKeyBlock), top);
    Store(scratch + b * kKeyBlock, p);
    sums += p;
  }
  const float sum = Sum(sums);
  const float* p = scratch - block_begin * kKeyBlock;
  std::memset(out, 0, sizeof(float) * head_dim);
  for (int64_t j = first; j < length; ++j) {
    AddScaled(out, p[j], blocks.values[j / kKeyBlock] + (j % kKeyBlock) * blocks.value_stride, head_dim);
  }
  const float inverse = 1.0f / sum;
  for (int64_t d = 0; d < head_dim; ++d) out[d] *= inverse;
  return top + std::log(sum);
}

HONE_CLONES void AttendBackward(const float* query, const KeyValueBlocks& blocks, const float* const* values_transposed,
                                const float* key_rows, int64_t key_stride, int64_t first, int64_t length,
                                int64_t head_dim, float scale, float log_sum, const float* dout, float out_dot,
                                float* scratch, float* dquery, float* dkeys, float* dvalues, int64_t stride) {
  const int64_t block_begin = first / kKeyBlock, block_end = (length + kKeyBlock - 1) / kKeyBlock;
  const int64_t count = block_end - block_begin;
  float* probability = scratch;
  float* dscore = scratch + count * kKeyBlock;
  Scores(query, blocks.keys, first, length, head_dim, scale, probability);
  for (int64_t b = 0; b < count; ++b) {
    Vec dp = Vec{};
    const float* v = values_transposed[block_begin + b];
    for (int64_t d = 0; d < head_dim; ++d) dp += dout[d] * Load(v + d * kKeyBlock);
    const Vec p = Probability(Load(probability + b * kKeyBlock), log_sum);
    Store(probability + b * kKeyBlock, p);
    Store(dscore + b * kKeyBlock, p * (dp - out_dot) * scale);
  }
  probability -= block_begin * kKeyBlock;
  dscore -= block_begin * kKeyBlock;
  for (int64_t j = first; j < length; ++j) {
    AddScaled(dquery, dscore[j], key_rows + j * key_stride, head_dim);
    AddScaled(dkeys + j * stride, dscore[j], query, head_dim);
    AddScaled(dvalues + j * stride, probability[j], dout, head_dim);
  }
}

HONE_CLONES void TransposeIntoBlocks(const float* rows, int64_t stride, int64_t count, int64_t head_dim,
                                     float* blocks) {
  for (int64_t b = 0; b * kKeyBlock < count; ++b) {
    float* block = blocks + b * head_dim * kKeyBlock;
    const int64_t in_block = std::min(kKeyBlock, count - b * kKeyBlock);
    if (in_block < kKeyBlock) std::memset(block, 0, sizeof(float) * head_dim * kKeyBlock);
    for (int64_t j = 0; j < in_block; ++j) {
      const float* row = rows + (b * kKeyBlock + j) * stride;
      for (int64_t d = 0; d < head_dim; ++d) block[d * kKeyBlock + j] = row[d];
    }
  }
}

HONE_CLONES RowLogProb LogProbRow(const float* logits, int64_t vocab, float temperature) {
  const float inverse = 1.0f / temperature;
  float top = logits[0];
  for (int64_t i = 1; i < vocab; ++i) top = std::max(top, logits[i]);
  Vec sums = Vec{}, weighted = Vec{};
  for (int64_t i = 0; i < vocab; i += kLanes) {
    const int64_t count = vocab - i;
    const Vec shifted = ((count >= kLanes ? Load(logits + i) : LoadPart(logits + i, count, top)) - top) * inverse;
    Vec e = Exp(shifted);
    if (count < kLanes) e = LaneIndex() < static_cast<int32_t>(count) ? e : Vec{};
    sums += e;
    weighted += e * shifted;
  }
  const float sum = Sum(sums);
  const float log_sum = std::log(sum);
  return {top * inverse + log_sum, log_sum - Sum(weighted) / sum};
}

HONE_CLONES void LogProbRowBackward(const float* logits, int64_t vocab, float temperature, const RowLogProb& row,
                                    int64_t target, float dlog_prob, float dentropy, float* dlogits) {
  const float inverse = 1.0f / temperature;
  for (int64_t i = 0; i < vocab; i += kLanes) {
    const int64_t count = vocab - i;
    const Vec z = (count >= kLanes ? Load(logits + i) : LoadPart(logits + i, count, 0)) * inverse;
    const Vec log_p = z - row.log_sum;
    const Vec p = Exp(log_p);
    const Vec g = (-dlog_prob * p - dentropy * p * (log_p + row.entropy)) * inverse;
    if (count >= kLanes) {
      Store(dlogits + i, g);
    } else {
      float part[kLanes];
      Store(part, g);
      std::memcpy(dlogits + i, part, sizeof(float) * count);
    }
  }
  dlogits[target] += dlog_prob * inverse;
}

}  // namespace hone::policy::cpu
