// CUDA's mathematics. Accurate functions are the C library's; the approximate intrinsics (__expf, __logf, __sinf, ...)
// are short branch-free polynomials that vectorise, with errors like those of the CUDA C++ Programming Guide, table
// "Intrinsic functions". Min and max take the non-NaN operand, as on the device.
#ifndef HONE_MATH_H_
#define HONE_MATH_H_

#define INFINITY __builtin_inff()
#define NAN __builtin_nanf("")
#define HUGE_VAL __builtin_huge_val()
#define HUGE_VALF __builtin_huge_valf()
#define M_E 2.7182818284590452354
#define M_LOG2E 1.4426950408889634074
#define M_LOG10E 0.43429448190325182765
#define M_LN2 0.69314718055994530942
#define M_LN10 2.30258509299404568402
#define M_PI 3.14159265358979323846
#define M_PI_2 1.57079632679489661923
#define M_PI_4 0.78539816339744830962
#define M_1_PI 0.31830988618379067154
#define M_2_PI 0.63661977236758134308
#define M_2_SQRTPI 1.12837916709551257390
#define M_SQRT2 1.41421356237309504880
#define M_SQRT1_2 0.70710678118654752440
#define CUDART_INF_F __builtin_inff()
#define CUDART_INF __builtin_inf()
#define CUDART_NAN_F __builtin_nanf("")
#define CUDART_PI_F 3.141592654f

#define HONE_UNARY_NAMES(F) \
  F(acos) F(acosh) F(asin) F(asinh) F(atan) F(atanh) F(cbrt) F(ceil) F(cos) F(cosh) F(erf) F(erfc) F(exp) \
  F(exp2) F(expm1) F(fabs) F(floor) F(lgamma) F(log) F(log10) F(log1p) F(log2) F(logb) F(nearbyint) F(rint) \
  F(round) F(sin) F(sinh) F(sqrt) F(tan) F(tanh) F(tgamma) F(trunc)
// C names, then the overloads that C++ adds: float stays float. Those for integers: relaxed_constexpr.h.
#define HONE_UNARY(name)                                                                  \
  extern "C" float name##f(float) noexcept;                                               \
  extern "C" double name(double) noexcept;                                                \
  HONE_INLINE float name(float x) { return name##f(x); }
HONE_UNARY_NAMES(HONE_UNARY)
#undef HONE_UNARY

#define HONE_BINARY(name)                                             \
  extern "C" float name##f(float, float) noexcept;                    \
  extern "C" double name(double, double) noexcept;                    \
  HONE_INLINE float name(float x, float y) { return name##f(x, y); }  \
  HONE_INLINE double name(float x, double y) { return name((double)x, y); } \
  HONE_INLINE double name(double x, float y) { return name(x, (double)y); }
HONE_BINARY(atan2) HONE_BINARY(copysign) HONE_BINARY(fdim) HONE_BINARY(fmod) HONE_BINARY(hypot) HONE_BINARY(nextafter)
HONE_BINARY(pow) HONE_BINARY(remainder)
#undef HONE_BINARY

// CUDA itself declares pow for mixed arguments.
HONE_INLINE double pow(float x, int n) { return pow((double)x, (double)n); }
HONE_INLINE double pow(double x, int n) { return pow(x, (double)n); }
HONE_INLINE double pow(int x, float y) { return pow((double)x, (double)y); }
HONE_INLINE double pow(int x, double y) { return pow((double)x, y); }
HONE_INLINE double pow(int x, int n) { return pow((double)x, (double)n); }

extern "C" {
float fmaf(float, float, float) noexcept;
double fma(double, double, double) noexcept;
float ldexpf(float, int) noexcept;
double ldexp(double, int) noexcept;
float scalbnf(float, int) noexcept;
double scalbn(double, int) noexcept;
float frexpf(float, int*) noexcept;
double frexp(double, int*) noexcept;
float modff(float, float*) noexcept;
double modf(double, double*) noexcept;
int ilogbf(float) noexcept;
int ilogb(double) noexcept;
long lroundf(float) noexcept;
long lround(double) noexcept;
long lrintf(float) noexcept;
long lrint(double) noexcept;
long long llroundf(float) noexcept;
long long llround(double) noexcept;
long long llrintf(float) noexcept;
long long llrint(double) noexcept;
int abs(int) noexcept;
long labs(long) noexcept;
long long llabs(long long) noexcept;
float j0f(float) noexcept;
float j1f(float) noexcept;
double j0(double) noexcept;
double j1(double) noexcept;
float y0f(float) noexcept;
float y1f(float) noexcept;
double y0(double) noexcept;
double y1(double) noexcept;
}
HONE_INLINE float fma(float x, float y, float z) { return fmaf(x, y, z); }
HONE_INLINE float ldexp(float x, int n) { return ldexpf(x, n); }
HONE_INLINE float scalbn(float x, int n) { return scalbnf(x, n); }
HONE_INLINE float frexp(float x, int* n) { return frexpf(x, n); }
HONE_INLINE float modf(float x, float* whole) { return modff(x, whole); }
HONE_INLINE long lround(float x) { return lroundf(x); }
HONE_INLINE long lrint(float x) { return lrintf(x); }
HONE_INLINE float abs(float x) { return fabsf(x); }
HONE_INLINE double abs(double x) { return fabs(x); }
HONE_INLINE long abs(long x) { return x < 0 ? -x : x; }
HONE_INLINE long long abs(long long x) { return x < 0 ? -x : x; }

HONE_INLINE bool isnan(float x) { return x != x; }
HONE_INLINE bool isnan(double x) { return x != x; }
HONE_INLINE bool isinf(float x) { return __builtin_isinf(x); }
HONE_INLINE bool isinf(double x) { return __builtin_isinf(x); }
HONE_INLINE bool isfinite(float x) { return __builtin_isfinite(x); }
HONE_INLINE bool isfinite(double x) { return __builtin_isfinite(x); }
HONE_INLINE bool signbit(float x) { return __builtin_signbit(x); }
HONE_INLINE bool signbit(double x) { return __builtin_signbit(x); }

// The operand that is a number where the other is not.
#define HONE_MINMAX(type, suffix)                                                              \
  HONE_INLINE type fmax##suffix(type a, type b) { const type m = a > b ? a : b; return b != b ? a : m; } \
  HONE_INLINE type fmin##suffix(type a, type b) { const type m = a < b ? a : b; return b != b ? a : m; }
HONE_MINMAX(float, f)
HONE_MINMAX(float, )
HONE_MINMAX(double, )
#undef HONE_MINMAX
HONE_INLINE double fmax(float a, double b) { return fmax((double)a, b); }
HONE_INLINE double fmax(double a, float b) { return fmax(a, (double)b); }
HONE_INLINE double fmin(float a, double b) { return fmin((double)a, b); }
HONE_INLINE double fmin(double a, float b) { return fmin(a, (double)b); }

// CUDA's overload set, no more: max(1.0f, 1) is ambiguous there too.
#define HONE_INTEGER_MINMAX(type, a_type, b_type)                                            \
  HONE_INLINE type max(a_type a, b_type b) { return (type)a > (type)b ? (type)a : (type)b; } \
  HONE_INLINE type min(a_type a, b_type b) { return (type)a < (type)b ? (type)a : (type)b; }
HONE_INTEGER_MINMAX(int, int, int)
HONE_INTEGER_MINMAX(unsigned, unsigned, unsigned)
HONE_INTEGER_MINMAX(unsigned, int, unsigned)
HONE_INTEGER_MINMAX(unsigned, unsigned, int)
HONE_INTEGER_MINMAX(long, long, long)
HONE_INTEGER_MINMAX(unsigned long, unsigned long, unsigned long)
HONE_INTEGER_MINMAX(unsigned long, long, unsigned long)
HONE_INTEGER_MINMAX(unsigned long, unsigned long, long)
HONE_INTEGER_MINMAX(long long, long long, long long)
HONE_INTEGER_MINMAX(unsigned long long, unsigned long long, unsigned long long)
HONE_INTEGER_MINMAX(unsigned long long, long long, unsigned long long)
HONE_INTEGER_MINMAX(unsigned long long, unsigned long long, long long)
#undef HONE_INTEGER_MINMAX
HONE_INLINE float max(float a, float b) { return fmaxf(a, b); }
HONE_INLINE float min(float a, float b) { return fminf(a, b); }
HONE_INLINE double max(double a, double b) { return fmax(a, b); }
HONE_INLINE double min(double a, double b) { return fmin(a, b); }
HONE_INLINE double max(float a, double b) { return fmax((double)a, b); }
HONE_INLINE double min(float a, double b) { return fmin((double)a, b); }
HONE_INLINE double max(double a, float b) { return fmax(a, (double)b); }
HONE_INLINE double min(double a, float b) { return fmin(a, (double)b); }
HONE_INLINE unsigned umax(unsigned a, unsigned b) { return a > b ? a : b; }
HONE_INLINE unsigned umin(unsigned a, unsigned b) { return a < b ? a : b; }

HONE_INLINE float rsqrtf(float x) { return 1.0f / sqrtf(x); }
HONE_INLINE float rsqrt(float x) { return 1.0f / sqrtf(x); }
HONE_INLINE double rsqrt(double x) { return 1.0 / sqrt(x); }
HONE_INLINE float rcbrtf(float x) { return 1.0f / cbrtf(x); }
HONE_INLINE float exp10f(float x) { return exp2f(x * 3.321928094887362f); }
HONE_INLINE double exp10(double x) { return exp2(x * 3.321928094887362); }
HONE_INLINE float normcdff(float x) { return 0.5f * erfcf(x * -0.707106781186547524f); }
HONE_INLINE double normcdf(double x) { return 0.5 * erfc(x * -0.707106781186547524); }
HONE_INLINE float rhypotf(float x, float y) { return 1.0f / hypotf(x, y); }
HONE_INLINE float norm3df(float x, float y, float z) { return sqrtf(x * x + y * y + z * z); }
HONE_INLINE float norm4df(float x, float y, float z, float w) { return sqrtf(x * x + y * y + z * z + w * w); }
HONE_INLINE float rnorm3df(float x, float y, float z) { return 1.0f / norm3df(x, y, z); }
HONE_INLINE void sincosf(float x, float* s, float* c) { *s = sinf(x); *c = cosf(x); }
HONE_INLINE void sincos(double x, double* s, double* c) { *s = sin(x); *c = cos(x); }
HONE_INLINE float sinpif(float x) { return (float)sin((double)x * M_PI); }
HONE_INLINE float cospif(float x) { return (float)cos((double)x * M_PI); }

// ---- bits

#define HONE_BITS(name, to, from) \
  HONE_INLINE to name(from x) { to y; __builtin_memcpy(&y, &x, sizeof y); return y; }
HONE_BITS(__float_as_int, int, float)
HONE_BITS(__float_as_uint, unsigned, float)
HONE_BITS(__int_as_float, float, int)
HONE_BITS(__uint_as_float, float, unsigned)
HONE_BITS(__double_as_longlong, long long, double)
HONE_BITS(__longlong_as_double, double, long long)
#undef HONE_BITS
HONE_INLINE int __popc(unsigned x) { return __builtin_popcount(x); }
HONE_INLINE int __popcll(unsigned long long x) { return __builtin_popcountll(x); }
HONE_INLINE int __ffs(int x) { return __builtin_ffs(x); }
HONE_INLINE int __ffsll(long long x) { return __builtin_ffsll(x); }
HONE_INLINE int __clz(int x) { return x ? __builtin_clz(x) : 32; }
HONE_INLINE int __clzll(long long x) { return x ? __builtin_clzll(x) : 64; }
HONE_INLINE unsigned __brev(unsigned x) {
  x = (x >> 1 & 0x55555555u) | (x & 0x55555555u) << 1;
  x = (x >> 2 & 0x33333333u) | (x & 0x33333333u) << 2;
  x = (x >> 4 & 0x0f0f0f0fu) | (x & 0x0f0f0f0fu) << 4;
  return __builtin_bswap32(x);
}
HONE_INLINE unsigned __byte_perm(unsigned x, unsigned y, unsigned selector) {
  const unsigned long long both = (unsigned long long)y << 32 | x;
  unsigned result = 0;
  for (int i = 0; i < 4; ++i) {
    const unsigned s = selector >> 4 * i & 15;
    unsigned byte = (unsigned)(both >> 8 * (s & 7)) & 255;
    if (s & 8) byte = byte & 128 ? 255 : 0;
    result |= byte << 8 * i;
  }
  return result;
}
HONE_INLINE unsigned __funnelshift_l(unsigned lo, unsigned hi, unsigned n) {
  return (unsigned)((((unsigned long long)hi << 32 | lo) << (n & 31)) >> 32);
}
HONE_INLINE unsigned __funnelshift_r(unsigned lo, unsigned hi, unsigned n) {
  return (unsigned)(((unsigned long long)hi << 32 | lo) >> (n & 31));
}
HONE_INLINE int __mul24(int a, int b) { return (a << 8 >> 8) * (b << 8 >> 8); }
HONE_INLINE unsigned __umul24(unsigned a, unsigned b) { return (a & 0xffffffu) * (b & 0xffffffu); }
HONE_INLINE int __mulhi(int a, int b) { return (int)((long long)a * b >> 32); }
HONE_INLINE unsigned __umulhi(unsigned a, unsigned b) { return (unsigned)((unsigned long long)a * b >> 32); }
HONE_INLINE long long __mul64hi(long long a, long long b) { return (long long)((__int128)a * b >> 64); }
HONE_INLINE unsigned long long __umul64hi(unsigned long long a, unsigned long long b) {
  return (unsigned long long)((unsigned __int128)a * b >> 64);
}
HONE_INLINE unsigned __sad(int a, int b, unsigned c) { return (unsigned)(a > b ? a - b : b - a) + c; }
HONE_INLINE int __dp4a(int a, int b, int c) {
  for (int i = 0; i < 4; ++i) c += (int)(signed char)(a >> 8 * i) * (int)(signed char)(b >> 8 * i);
  return c;
}

// ---- conversions

HONE_INLINE int __float2int_rn(float x) { return (int)rintf(x); }
HONE_INLINE int __float2int_rz(float x) { return (int)x; }
HONE_INLINE int __float2int_rd(float x) { return (int)floorf(x); }
HONE_INLINE int __float2int_ru(float x) { return (int)ceilf(x); }
HONE_INLINE unsigned __float2uint_rn(float x) { return x <= 0 ? 0 : (unsigned)rintf(x); }
HONE_INLINE unsigned __float2uint_rz(float x) { return x <= 0 ? 0 : (unsigned)x; }
HONE_INLINE float __int2float_rn(int x) { return (float)x; }
HONE_INLINE float __int2float_rz(int x) { return (float)x; }
HONE_INLINE float __uint2float_rn(unsigned x) { return (float)x; }
HONE_INLINE float __double2float_rn(double x) { return (float)x; }
HONE_INLINE int __double2int_rn(double x) { return (int)rint(x); }
HONE_INLINE int __double2int_rz(double x) { return (int)x; }
HONE_INLINE double __int2double_rn(int x) { return x; }
HONE_INLINE long long __float2ll_rn(float x) { return (long long)rintf(x); }
HONE_INLINE float __ll2float_rn(long long x) { return (float)x; }

// ---- rounded arithmetic: these are never contracted with their neighbours on the device; here they may be

HONE_INLINE float __fadd_rn(float a, float b) { return a + b; }
HONE_INLINE float __fsub_rn(float a, float b) { return a - b; }
HONE_INLINE float __fmul_rn(float a, float b) { return a * b; }
HONE_INLINE float __fdiv_rn(float a, float b) { return a / b; }
HONE_INLINE float __fmaf_rn(float a, float b, float c) { return fmaf(a, b, c); }
HONE_INLINE float __fsqrt_rn(float a) { return sqrtf(a); }
HONE_INLINE float __frcp_rn(float a) { return 1.0f / a; }
HONE_INLINE float __frsqrt_rn(float a) { return 1.0f / sqrtf(a); }
HONE_INLINE double __dadd_rn(double a, double b) { return a + b; }
HONE_INLINE double __dmul_rn(double a, double b) { return a * b; }
HONE_INLINE double __ddiv_rn(double a, double b) { return a / b; }
HONE_INLINE double __dsqrt_rn(double a) { return sqrt(a); }
HONE_INLINE double __fma_rn(double a, double b, double c) { return fma(a, b, c); }
HONE_INLINE float __saturatef(float x) { return x > 0 ? (x < 1 ? x : 1.0f) : 0.0f; }
HONE_INLINE float __fdividef(float a, float b) { return a / b; }
HONE_INLINE float fdividef(float a, float b) { return a / b; }
HONE_INLINE double fdivide(double a, double b) { return a / b; }

// ---- approximate functions; coefficients are minimax fits over the reduced interval

// 2^x: relative error below 2^-22; exact scaling over the whole range, overflow to infinity, gradual underflow.
HONE_INLINE float hone_exp2(float x) {
  x = x > 129.0f ? 129.0f : x;
  x = x < -151.0f ? -151.0f : x;
  const float whole = __builtin_rintf(x);
  const float f = x - whole;
  float p = 0.00015345810970757157f;
  p = p * f + 0.0013399930903688073f;
  p = p * f + 0.009618489071726799f;
  p = p * f + 0.05550328642129898f;
  p = p * f + 0.24022646248340607f;
  p = p * f + 0.6931471824645996f;
  p = p * f + 1.0f;
  const int n = (int)whole;
  const int half = n >> 1;
  return p * __int_as_float((half + 127) << 23) * __int_as_float((n - half + 127) << 23);
}
HONE_INLINE float __expf(float x) { return hone_exp2(x * 1.4426950408889634f); }
HONE_INLINE float __exp10f(float x) { return hone_exp2(x * 3.321928094887362f); }
HONE_INLINE float __tanhf(float x) {
  const float e = __expf(-2.0f * (x < 0 ? -x : x));
  const float t = (1.0f - e) / (1.0f + e);
  return x < 0 ? -t : t;
}

// ln x: absolute error below 2^-22 on [0.5, 2], relative elsewhere. Denormal arguments count as zero.
HONE_INLINE float __logf(float x) {
  const int bits = __float_as_int(x);
  const int exponent = (bits - 0x3f400000) >> 23;
  const float f = __int_as_float(bits - (exponent << 23)) - 1.0f;
  float p = 0.0571969673037529f;
  p = p * f - 0.12272480875253677f;
  p = p * f + 0.14931100606918335f;
  p = p * f - 0.16775092482566833f;
  p = p * f + 0.1997886300086975f;
  p = p * f - 0.24996641278266907f;
  p = p * f + 0.3333354592323303f;
  const float result = (float)exponent * 0.6931471805599453f + (f - 0.5f * f * f + f * f * f * p);
  const float small = x < 0 ? NAN : -INFINITY;
  return x >= 1.17549435e-38f ? (x < INFINITY ? result : x) : (x != x ? x : small);
}
HONE_INLINE float __log2f(float x) { return __logf(x) * 1.4426950408889634f; }
HONE_INLINE float __log10f(float x) { return __logf(x) * 0.43429448190325183f; }
HONE_INLINE float __powf(float x, float y) { return hone_exp2(y * __log2f(x)); }

// Sine of r for |r| <= pi/2.
HONE_INLINE float hone_sine(float r) {
  const float s = r * r;
  float p = 2.6000548132287804e-06f;
  p = p * s - 0.00019806614727713168f;
  p = p * s + 0.008333017118275166f;
  p = p * s - 0.16666656732559204f;
  return r + r * s * p;
}
// Absolute error below 2^-21 on [-pi, pi], growing with |x|.
HONE_INLINE float __sinf(float x) {
  const float n = __builtin_rintf(x * 0.3183098861837907f);
  const float r = (x - n * 3.140625f) - n * 9.67653589793e-4f;
  return __int_as_float(__float_as_int(hone_sine(r)) ^ (int)n << 31);
}
HONE_INLINE float __cosf(float x) {
  const float n = __builtin_rintf(x * 0.3183098861837907f - 0.5f);
  const float q = n + 0.5f;
  const float r = (x - q * 3.140625f) - q * 9.67653589793e-4f;
  return __int_as_float(__float_as_int(hone_sine(r)) ^ ((int)n + 1) << 31);
}
HONE_INLINE float __tanf(float x) { return __sinf(x) / __cosf(x); }
HONE_INLINE void __sincosf(float x, float* s, float* c) { *s = __sinf(x); *c = __cosf(x); }

namespace std {
using ::abs; using ::acos; using ::acosh; using ::asin; using ::asinh; using ::atan; using ::atan2; using ::atanh;
using ::cbrt; using ::ceil; using ::copysign; using ::cos; using ::cosh; using ::erf; using ::erfc; using ::exp;
using ::exp2; using ::expm1; using ::fabs; using ::floor; using ::fma; using ::fmax; using ::fmin; using ::fmod;
using ::hypot; using ::isfinite; using ::isinf; using ::isnan; using ::ldexp; using ::lgamma; using ::log; using ::log10;
using ::log1p; using ::log2; using ::pow; using ::rint; using ::round; using ::signbit; using ::sin; using ::sinh;
using ::sqrt; using ::tan; using ::tanh; using ::tgamma; using ::trunc; using ::lround; using ::lrint; using ::modf;
using ::memcpy; using ::memset; using ::memmove; using ::malloc; using ::free; using ::size_t; using ::ptrdiff_t;
using ::int8_t; using ::int16_t; using ::int32_t; using ::int64_t; using ::uint8_t; using ::uint16_t; using ::uint32_t;
using ::uint64_t; using ::uintptr_t; using ::intptr_t;
typedef decltype(nullptr) nullptr_t;
template <class T> HONE_INLINE constexpr const T& max(const T& a, const T& b) { return a < b ? b : a; }
template <class T> HONE_INLINE constexpr const T& min(const T& a, const T& b) { return b < a ? b : a; }
}  // namespace std
#endif  // HONE_MATH_H_
