// Atomics. One host thread runs all threads of a grid, so that a plain read-modify-write is atomic; `volatile` keeps the
// compiler from overlapping the iterations of a row.
#ifndef HONE_ATOMICS_H_
#define HONE_ATOMICS_H_

#define HONE_ATOMIC(name, type, expression)                \
  HONE_INLINE type name(type* address, type value) {       \
    volatile type* place = address;                        \
    const type old = *place;                               \
    *place = (type)(expression);                           \
    return old;                                            \
  }                                                        \
  HONE_INLINE type name##_block(type* address, type value) { return name(address, value); } \
  HONE_INLINE type name##_system(type* address, type value) { return name(address, value); }
#define HONE_ATOMIC_INTEGERS(name, expression) \
  HONE_ATOMIC(name, int, expression)           \
  HONE_ATOMIC(name, unsigned, expression)      \
  HONE_ATOMIC(name, unsigned long long, expression)

HONE_ATOMIC_INTEGERS(atomicAdd, old + value)
HONE_ATOMIC(atomicAdd, float, old + value)
HONE_ATOMIC(atomicAdd, double, old + value)
HONE_ATOMIC(atomicSub, int, old - value)
HONE_ATOMIC(atomicSub, unsigned, old - value)
HONE_ATOMIC_INTEGERS(atomicExch, value)
HONE_ATOMIC(atomicExch, float, value)
HONE_ATOMIC_INTEGERS(atomicMin, old < value ? old : value)
HONE_ATOMIC(atomicMin, long long, old < value ? old : value)
HONE_ATOMIC_INTEGERS(atomicMax, old > value ? old : value)
HONE_ATOMIC(atomicMax, long long, old > value ? old : value)
HONE_ATOMIC_INTEGERS(atomicAnd, old & value)
HONE_ATOMIC_INTEGERS(atomicOr, old | value)
HONE_ATOMIC_INTEGERS(atomicXor, old ^ value)
HONE_ATOMIC(atomicInc, unsigned, old >= value ? 0 : old + 1)
HONE_ATOMIC(atomicDec, unsigned, old == 0 || old > value ? value : old - 1)
#undef HONE_ATOMIC_INTEGERS
#undef HONE_ATOMIC

#define HONE_CAS(type)                                                      \
  HONE_INLINE type atomicCAS(type* address, type expected, type desired) {  \
    volatile type* place = address;                                         \
    const type old = *place;                                                \
    if (old == expected) *place = desired;                                  \
    return old;                                                             \
  }
HONE_CAS(int)
HONE_CAS(unsigned)
HONE_CAS(unsigned long long)
HONE_CAS(unsigned short)
#undef HONE_CAS

HONE_INLINE float4 atomicAdd(float4* address, float4 value) {
  return {atomicAdd(&address->x, value.x), atomicAdd(&address->y, value.y), atomicAdd(&address->z, value.z),
          atomicAdd(&address->w, value.w)};
}
HONE_INLINE float2 atomicAdd(float2* address, float2 value) {
  return {atomicAdd(&address->x, value.x), atomicAdd(&address->y, value.y)};
}
#endif  // HONE_ATOMICS_H_
