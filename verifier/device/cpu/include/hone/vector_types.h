// CUDA's built-in vector types and their make_ functions, dim3.
#ifndef HONE_VECTOR_TYPES_H_
#define HONE_VECTOR_TYPES_H_

#define HONE_VECTORS(name, type, align2, align4)                                                                \
  struct name##1 { type x; };                                                                                   \
  struct __attribute__((aligned(align2))) name##2 { type x, y; };                                               \
  struct name##3 { type x, y, z; };                                                                             \
  struct __attribute__((aligned(align4))) name##4 { type x, y, z, w; };                                         \
  HONE_INLINE constexpr name##1 make_##name##1(type x) { return {x}; }                                          \
  HONE_INLINE constexpr name##2 make_##name##2(type x, type y) { return {x, y}; }                               \
  HONE_INLINE constexpr name##3 make_##name##3(type x, type y, type z) { return {x, y, z}; }                    \
  HONE_INLINE constexpr name##4 make_##name##4(type x, type y, type z, type w) { return {x, y, z, w}; }

HONE_VECTORS(char, signed char, 2, 4)
HONE_VECTORS(uchar, unsigned char, 2, 4)
HONE_VECTORS(short, short, 4, 8)
HONE_VECTORS(ushort, unsigned short, 4, 8)
HONE_VECTORS(int, int, 8, 16)
HONE_VECTORS(uint, unsigned int, 8, 16)
HONE_VECTORS(long, long, 16, 16)
HONE_VECTORS(ulong, unsigned long, 16, 16)
HONE_VECTORS(longlong, long long, 16, 16)
HONE_VECTORS(ulonglong, unsigned long long, 16, 16)
HONE_VECTORS(float, float, 8, 16)
HONE_VECTORS(double, double, 16, 16)
#undef HONE_VECTORS

struct dim3 {
  unsigned int x, y, z;
  constexpr dim3(unsigned int vx = 1, unsigned int vy = 1, unsigned int vz = 1) : x(vx), y(vy), z(vz) {}
  constexpr dim3(uint3 v) : x(v.x), y(v.y), z(v.z) {}
  constexpr operator uint3() const { return {x, y, z}; }
};
#endif  // HONE_VECTOR_TYPES_H_
