// One 16-bit floating type and its pair with all their functions. Included once for each type, so without a guard, by
// cuda_fp16.h and cuda_bf16.h, which define
//   HONE_T, HONE_T2   the type and the pair: __half, __half2
//   HONE_FORMAT       its bits: HoneBinary16
//   HONE_NAME(a, b)   a function's name with the type's word between: HONE_NAME(__float2, _rn) is __float2half_rn
//   HONE_NAME2(a, b)  the same with the pair's word: half2
//   HONE_ONE, HONE_INFINITE  the patterns of 1 and infinity
// Arithmetic is done in float and rounded once; the sum, product, quotient and root of two such numbers come out as if
// rounded at once. The fused multiply-add is exact until its one rounding.

// Kernels read arrays of it as int4, float4 or pairs and back.
struct __attribute__((may_alias)) HONE_T {
  unsigned short hone_x;
  HONE_T() = default;
#define HONE_FROM(type, expression) \
  __attribute__((always_inline)) HONE_T(type x) : hone_x(HONE_FORMAT::Pack(expression)) {}
  HONE_FROM(float, x) HONE_FROM(double, hone_narrow(x))
  HONE_FROM(short, x) HONE_FROM(unsigned short, x) HONE_FROM(int, hone_narrow(x)) HONE_FROM(unsigned, hone_narrow(x))
  HONE_FROM(long, hone_narrow((double)x)) HONE_FROM(unsigned long, hone_narrow((double)x))
  HONE_FROM(long long, hone_narrow((double)x)) HONE_FROM(unsigned long long, hone_narrow((double)x))
#undef HONE_FROM
  __attribute__((always_inline)) operator float() const { return HONE_FORMAT::Unpack(hone_x); }
  __attribute__((always_inline)) operator bool() const { return (hone_x & 0x7fff) != 0; }
#define HONE_TO(type) \
  __attribute__((always_inline)) operator type() const { return hone_saturate<type>(HONE_FORMAT::Unpack(hone_x)); }
  HONE_TO(char) HONE_TO(signed char) HONE_TO(unsigned char) HONE_TO(short) HONE_TO(unsigned short) HONE_TO(int)
  HONE_TO(unsigned) HONE_TO(long) HONE_TO(unsigned long) HONE_TO(long long) HONE_TO(unsigned long long)
#undef HONE_TO
};
struct __attribute__((may_alias, aligned(4))) HONE_T2 {
  HONE_T x, y;
  HONE_T2() = default;
  __attribute__((always_inline)) HONE_T2(const HONE_T& a, const HONE_T& b) : x(a), y(b) {}
};

HONE_INLINE HONE_T HONE_NAME(__ushort_as_, )(unsigned short bits) { HONE_T h; h.hone_x = bits; return h; }
HONE_INLINE HONE_T HONE_NAME(__short_as_, )(short bits) { return HONE_NAME(__ushort_as_, )((unsigned short)bits); }
HONE_INLINE unsigned short HONE_NAME(__, _as_ushort)(HONE_T h) { return h.hone_x; }
HONE_INLINE short HONE_NAME(__, _as_short)(HONE_T h) { return (short)h.hone_x; }

// ---- Conversions. _rn to nearest, _rz to zero, _rd down, _ru up.
HONE_INLINE float HONE_NAME(__, 2float)(HONE_T h) { return h; }
HONE_INLINE HONE_T HONE_NAME(__float2, )(float x) { return HONE_T(x); }
HONE_INLINE HONE_T HONE_NAME(__float2, _rn)(float x) { return HONE_T(x); }
HONE_INLINE HONE_T HONE_NAME(__double2, )(double x) { return HONE_T(x); }
// The neighbour below or above, of a number that was rounded the wrong way.
HONE_INLINE HONE_T HONE_NAME(hone_step_, )(HONE_T h, bool away_from_zero) {
  return HONE_NAME(__ushort_as_, )((unsigned short)(away_from_zero ? h.hone_x + 1 : h.hone_x - 1));
}
HONE_INLINE HONE_T HONE_NAME(__float2, _rz)(float x) {
  const HONE_T h(x);
  return fabsf((float)h) > fabsf(x) ? HONE_NAME(hone_step_, )(h, false) : h;
}
HONE_INLINE HONE_T HONE_NAME(__float2, _rd)(float x) {
  const HONE_T h(x);
  return (float)h > x ? HONE_NAME(hone_step_, )(h, h.hone_x >> 15) : h;
}
HONE_INLINE HONE_T HONE_NAME(__float2, _ru)(float x) {
  const HONE_T h(x);
  return (float)h < x ? HONE_NAME(hone_step_, )(h, !(h.hone_x >> 15)) : h;
}
#define HONE_INTEGER(name, type)                                                                                          \
  HONE_INLINE HONE_T HONE_NAME(__##name##2, _rn)(type x) { return HONE_T(x); }                                            \
  HONE_INLINE type HONE_NAME(__, 2##name##_rn)(HONE_T h) { return hone_saturate<type>(rintf((float)h)); }                 \
  HONE_INLINE type HONE_NAME(__, 2##name##_rz)(HONE_T h) { return hone_saturate<type>((float)h); }                        \
  HONE_INLINE type HONE_NAME(__, 2##name##_rd)(HONE_T h) { return hone_saturate<type>(floorf((float)h)); }                \
  HONE_INLINE type HONE_NAME(__, 2##name##_ru)(HONE_T h) { return hone_saturate<type>(ceilf((float)h)); }
HONE_INTEGER(int, int) HONE_INTEGER(uint, unsigned) HONE_INTEGER(short, short) HONE_INTEGER(ushort, unsigned short)
HONE_INTEGER(ll, long long) HONE_INTEGER(ull, unsigned long long)
#undef HONE_INTEGER

HONE_INLINE HONE_T2 HONE_NAME2(make_, )(HONE_T x, HONE_T y) { return {x, y}; }
HONE_INLINE HONE_T2 HONE_NAME2(__halves2, )(HONE_T x, HONE_T y) { return {x, y}; }
HONE_INLINE HONE_T2 HONE_NAME2(HONE_NAME(__, 2), )(HONE_T x) { return {x, x}; }
HONE_INLINE HONE_T2 HONE_NAME2(__float2, _rn)(float x) { return {x, x}; }
HONE_INLINE HONE_T2 HONE_NAME2(__floats2, _rn)(float x, float y) { return {x, y}; }
HONE_INLINE HONE_T2 HONE_NAME2(__float22, _rn)(float2 v) { return {v.x, v.y}; }
HONE_INLINE float2 HONE_NAME2(__, 2float2)(HONE_T2 v) { return {v.x, v.y}; }
HONE_INLINE HONE_T HONE_NAME(__low2, )(HONE_T2 v) { return v.x; }
HONE_INLINE HONE_T HONE_NAME(__high2, )(HONE_T2 v) { return v.y; }
HONE_INLINE float __low2float(HONE_T2 v) { return v.x; }
HONE_INLINE float __high2float(HONE_T2 v) { return v.y; }
HONE_INLINE HONE_T2 HONE_NAME2(__low2, )(HONE_T2 v) { return {v.x, v.x}; }
HONE_INLINE HONE_T2 HONE_NAME2(__high2, )(HONE_T2 v) { return {v.y, v.y}; }
HONE_INLINE HONE_T2 HONE_NAME2(__lows2, )(HONE_T2 v, HONE_T2 w) { return {v.x, w.x}; }
HONE_INLINE HONE_T2 HONE_NAME2(__highs2, )(HONE_T2 v, HONE_T2 w) { return {v.y, w.y}; }
HONE_INLINE HONE_T2 __lowhigh2highlow(HONE_T2 v) { return {v.y, v.x}; }

// ---- Arithmetic.
#define HONE_BINARY(name, pair, op, expression)                                                             \
  HONE_INLINE HONE_T name(HONE_T a, HONE_T b) {                                                             \
    const float x = a, y = b;                                                                               \
    return HONE_T((float)(expression));                                                                     \
  }                                                                                                         \
  HONE_INLINE HONE_T2 pair(HONE_T2 a, HONE_T2 b) { return {name(a.x, b.x), name(a.y, b.y)}; }               \
  HONE_INLINE HONE_T operator op(const HONE_T& a, const HONE_T& b) { return name(a, b); }                   \
  HONE_INLINE HONE_T2 operator op(const HONE_T2& a, const HONE_T2& b) { return pair(a, b); }                \
  HONE_INLINE HONE_T& operator op##=(HONE_T& a, const HONE_T& b) { return a = name(a, b); }                 \
  HONE_INLINE HONE_T2& operator op##=(HONE_T2& a, const HONE_T2& b) { return a = pair(a, b); }
HONE_BINARY(__hadd, __hadd2, +, x + y)
HONE_BINARY(__hsub, __hsub2, -, x - y)
HONE_BINARY(__hmul, __hmul2, *, x * y)
HONE_BINARY(__hdiv, __h2div, /, x / y)
#undef HONE_BINARY
HONE_INLINE HONE_T __hneg(HONE_T a) { return HONE_NAME(__ushort_as_, )(a.hone_x ^ 0x8000); }
HONE_INLINE HONE_T __habs(HONE_T a) { return HONE_NAME(__ushort_as_, )(a.hone_x & 0x7fff); }
HONE_INLINE HONE_T2 __hneg2(HONE_T2 a) { return {__hneg(a.x), __hneg(a.y)}; }
HONE_INLINE HONE_T2 __habs2(HONE_T2 a) { return {__habs(a.x), __habs(a.y)}; }
HONE_INLINE HONE_T __hfma(HONE_T a, HONE_T b, HONE_T c) { return HONE_T(hone_small_fma(a, b, c)); }
HONE_INLINE HONE_T2 __hfma2(HONE_T2 a, HONE_T2 b, HONE_T2 c) { return {__hfma(a.x, b.x, c.x), __hfma(a.y, b.y, c.y)}; }
HONE_INLINE HONE_T HONE_NAME(hone_saturate_, )(HONE_T h) { return HONE_T(__saturatef(h)); }
HONE_INLINE HONE_T HONE_NAME(hone_relu_, )(HONE_T h) { return (float)h < 0 ? HONE_T(0.0f) : h; }
#define HONE_VARIANTS(name, pair)                                                                                       \
  HONE_INLINE HONE_T name##_rn(HONE_T a, HONE_T b) { return name(a, b); }                                               \
  HONE_INLINE HONE_T name##_sat(HONE_T a, HONE_T b) { return HONE_NAME(hone_saturate_, )(name(a, b)); }                 \
  HONE_INLINE HONE_T2 pair##_rn(HONE_T2 a, HONE_T2 b) { return pair(a, b); }                                            \
  HONE_INLINE HONE_T2 pair##_sat(HONE_T2 a, HONE_T2 b) { return {name##_sat(a.x, b.x), name##_sat(a.y, b.y)}; }
HONE_VARIANTS(__hadd, __hadd2) HONE_VARIANTS(__hsub, __hsub2) HONE_VARIANTS(__hmul, __hmul2)
#undef HONE_VARIANTS
HONE_INLINE HONE_T __hfma_sat(HONE_T a, HONE_T b, HONE_T c) { return HONE_NAME(hone_saturate_, )(__hfma(a, b, c)); }
HONE_INLINE HONE_T __hfma_relu(HONE_T a, HONE_T b, HONE_T c) { return HONE_NAME(hone_relu_, )(__hfma(a, b, c)); }
HONE_INLINE HONE_T2 __hfma2_sat(HONE_T2 a, HONE_T2 b, HONE_T2 c) {
  return {__hfma_sat(a.x, b.x, c.x), __hfma_sat(a.y, b.y, c.y)};
}
HONE_INLINE HONE_T2 __hfma2_relu(HONE_T2 a, HONE_T2 b, HONE_T2 c) {
  return {__hfma_relu(a.x, b.x, c.x), __hfma_relu(a.y, b.y, c.y)};
}
HONE_INLINE HONE_T operator+(const HONE_T& a) { return a; }
HONE_INLINE HONE_T operator-(const HONE_T& a) { return __hneg(a); }
HONE_INLINE HONE_T2 operator+(const HONE_T2& a) { return a; }
HONE_INLINE HONE_T2 operator-(const HONE_T2& a) { return __hneg2(a); }
HONE_INLINE HONE_T& operator++(HONE_T& a) { return a += HONE_NAME(__ushort_as_, )(HONE_ONE); }
HONE_INLINE HONE_T& operator--(HONE_T& a) { return a -= HONE_NAME(__ushort_as_, )(HONE_ONE); }
HONE_INLINE HONE_T operator++(HONE_T& a, int) { const HONE_T old = a; ++a; return old; }
HONE_INLINE HONE_T operator--(HONE_T& a, int) { const HONE_T old = a; --a; return old; }

// ---- Comparison. A name with u is also true where an operand is NaN.
HONE_INLINE bool __hisnan(HONE_T a) { return (a.hone_x & 0x7fff) > HONE_INFINITE; }
HONE_INLINE int __hisinf(HONE_T a) { return (a.hone_x & 0x7fff) != HONE_INFINITE ? 0 : a.hone_x >> 15 ? -1 : 1; }
HONE_INLINE HONE_T2 __hisnan2(HONE_T2 a) { return {(float)__hisnan(a.x), (float)__hisnan(a.y)}; }
#define HONE_COMPARE(name, op)                                                                                            \
  HONE_INLINE bool __h##name(HONE_T a, HONE_T b) { return !__hisnan(a) && !__hisnan(b) && (float)a op (float)b; }         \
  HONE_INLINE bool __h##name##u(HONE_T a, HONE_T b) { return __hisnan(a) || __hisnan(b) || (float)a op (float)b; }        \
  HONE_INLINE HONE_T2 __h##name##2(HONE_T2 a, HONE_T2 b) {                                                                \
    return {(float)__h##name(a.x, b.x), (float)__h##name(a.y, b.y)};                                                      \
  }                                                                                                                       \
  HONE_INLINE HONE_T2 __h##name##u2(HONE_T2 a, HONE_T2 b) {                                                               \
    return {(float)__h##name##u(a.x, b.x), (float)__h##name##u(a.y, b.y)};                                                \
  }                                                                                                                       \
  HONE_INLINE unsigned __h##name##2_mask(HONE_T2 a, HONE_T2 b) {                                                          \
    return (__h##name(a.x, b.x) ? 0xffffu : 0) | (__h##name(a.y, b.y) ? 0xffff0000u : 0);                                 \
  }                                                                                                                       \
  HONE_INLINE bool __hb##name##2(HONE_T2 a, HONE_T2 b) { return __h##name(a.x, b.x) && __h##name(a.y, b.y); }             \
  HONE_INLINE bool __hb##name##u2(HONE_T2 a, HONE_T2 b) { return __h##name##u(a.x, b.x) && __h##name##u(a.y, b.y); }
HONE_COMPARE(eq, ==) HONE_COMPARE(ne, !=) HONE_COMPARE(lt, <) HONE_COMPARE(le, <=) HONE_COMPARE(gt, >) HONE_COMPARE(ge, >=)
#undef HONE_COMPARE
#define HONE_OPERATOR(op, name, pair)                                                      \
  HONE_INLINE bool operator op(const HONE_T& a, const HONE_T& b) { return name(a, b); }    \
  HONE_INLINE bool operator op(const HONE_T2& a, const HONE_T2& b) { return pair(a, b); }
HONE_OPERATOR(==, __heq, __hbeq2) HONE_OPERATOR(!=, __hneu, __hbneu2) HONE_OPERATOR(<, __hlt, __hblt2)
HONE_OPERATOR(<=, __hle, __hble2) HONE_OPERATOR(>, __hgt, __hbgt2) HONE_OPERATOR(>=, __hge, __hbge2)
#undef HONE_OPERATOR
// The operand that is a number where the other is not; +0 is above -0. With _nan a NaN wins.
#define HONE_EXTREME(name, op, zero)                                                                                      \
  HONE_INLINE HONE_T name(HONE_T a, HONE_T b) {                                                                           \
    if (__hisnan(a)) return __hisnan(b) ? HONE_NAME(__ushort_as_, )(0x7fff) : b;                                          \
    if (__hisnan(b)) return a;                                                                                            \
    if (((a.hone_x | b.hone_x) & 0x7fff) == 0) return HONE_NAME(__ushort_as_, )(a.hone_x zero b.hone_x);                  \
    return (float)a op (float)b ? a : b;                                                                                  \
  }                                                                                                                       \
  HONE_INLINE HONE_T name##_nan(HONE_T a, HONE_T b) {                                                                     \
    return __hisnan(a) || __hisnan(b) ? HONE_NAME(__ushort_as_, )(0x7fff) : name(a, b);                                   \
  }                                                                                                                       \
  HONE_INLINE HONE_T2 name##2(HONE_T2 a, HONE_T2 b) { return {name(a.x, b.x), name(a.y, b.y)}; }                          \
  HONE_INLINE HONE_T2 name##2_nan(HONE_T2 a, HONE_T2 b) { return {name##_nan(a.x, b.x), name##_nan(a.y, b.y)}; }
HONE_EXTREME(__hmax, >, &) HONE_EXTREME(__hmin, <, |)
#undef HONE_EXTREME

// ---- Mathematics: that of float, rounded.
#define HONE_UNARY(name, expression)                                          \
  HONE_INLINE HONE_T h##name(HONE_T h) { const float x = h; return HONE_T((float)(expression)); } \
  HONE_INLINE HONE_T2 h2##name(HONE_T2 v) { return {h##name(v.x), h##name(v.y)}; }
HONE_UNARY(exp, expf(x)) HONE_UNARY(exp2, exp2f(x)) HONE_UNARY(exp10, exp10f(x)) HONE_UNARY(log, logf(x))
HONE_UNARY(log2, log2f(x)) HONE_UNARY(log10, log10f(x)) HONE_UNARY(sqrt, sqrtf(x)) HONE_UNARY(rsqrt, 1.0f / sqrtf(x))
HONE_UNARY(rcp, 1.0f / x) HONE_UNARY(sin, sinf(x)) HONE_UNARY(cos, cosf(x)) HONE_UNARY(tanh, tanhf(x))
HONE_UNARY(tanh_approx, tanhf(x)) HONE_UNARY(floor, floorf(x)) HONE_UNARY(ceil, ceilf(x)) HONE_UNARY(trunc, truncf(x))
HONE_UNARY(rint, rintf(x))
#undef HONE_UNARY

// ---- Atomics.
HONE_INLINE HONE_T atomicAdd(HONE_T* address, HONE_T value) {
  volatile unsigned short* place = &address->hone_x;
  const HONE_T old = HONE_NAME(__ushort_as_, )(*place);
  *place = __hadd(old, value).hone_x;
  return old;
}
HONE_INLINE HONE_T2 atomicAdd(HONE_T2* address, HONE_T2 value) {
  return {atomicAdd(&address->x, value.x), atomicAdd(&address->y, value.y)};
}

#undef HONE_T
#undef HONE_T2
#undef HONE_FORMAT
#undef HONE_NAME
#undef HONE_NAME2
#undef HONE_ONE
#undef HONE_INFINITE
