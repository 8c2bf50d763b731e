// The overloads of <cmath> for integer arguments, which become double: sqrt(2), pow(x, 2), fmax(0, x). In nvcc they are
// constexpr host functions that device code may call under --expt-relaxed-constexpr.
#ifndef HONE_RELAXED_CONSTEXPR_H_
#define HONE_RELAXED_CONSTEXPR_H_

template <class T> struct hone_integral {};
template <> struct hone_integral<bool> { typedef double promoted; };
template <> struct hone_integral<char> { typedef double promoted; };
template <> struct hone_integral<signed char> { typedef double promoted; };
template <> struct hone_integral<unsigned char> { typedef double promoted; };
template <> struct hone_integral<short> { typedef double promoted; };
template <> struct hone_integral<unsigned short> { typedef double promoted; };
template <> struct hone_integral<int> { typedef double promoted; };
template <> struct hone_integral<unsigned> { typedef double promoted; };
template <> struct hone_integral<long> { typedef double promoted; };
template <> struct hone_integral<unsigned long> { typedef double promoted; };
template <> struct hone_integral<long long> { typedef double promoted; };
template <> struct hone_integral<unsigned long long> { typedef double promoted; };

#define HONE_UNARY(name) \
  template <class T> HONE_INLINE typename hone_integral<T>::promoted name(T x) { return name((double)x); }
HONE_UNARY_NAMES(HONE_UNARY)
#undef HONE_UNARY

#define HONE_BINARY(name)                                                                                                  \
  template <class T> HONE_INLINE typename hone_integral<T>::promoted name(T x, float y) { return name((double)x, (double)y); } \
  template <class T> HONE_INLINE typename hone_integral<T>::promoted name(T x, double y) { return name((double)x, y); }    \
  template <class T> HONE_INLINE typename hone_integral<T>::promoted name(float x, T y) { return name((double)x, (double)y); } \
  template <class T> HONE_INLINE typename hone_integral<T>::promoted name(double x, T y) { return name(x, (double)y); }    \
  template <class T, class U> HONE_INLINE typename hone_integral<T>::promoted name(T x, U y) {                             \
    return name((double)x, (double)(typename hone_integral<U>::promoted)y);                                                \
  }
HONE_BINARY(atan2) HONE_BINARY(copysign) HONE_BINARY(fdim) HONE_BINARY(fmax) HONE_BINARY(fmin) HONE_BINARY(fmod)
HONE_BINARY(hypot) HONE_BINARY(nextafter) HONE_BINARY(pow) HONE_BINARY(remainder)
#undef HONE_BINARY
#endif  // HONE_RELAXED_CONSTEXPR_H_
