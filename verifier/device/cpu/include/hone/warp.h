// Warp-wide operations: shuffles, votes, matches, reductions. The lanes of `mask` that have not returned meet; the
// others are not waited for. Reading a lane outside the mask returns what that lane last contributed.
#ifndef HONE_WARP_H_
#define HONE_WARP_H_

HONE_INLINE unsigned hone_lane() { return hone_self->lane; }

// Lane's contribution in, meeting, then `out` and `votes_out` of the warp are those of this operation, and hone_self->mask
// has the lanes that met: some may have returned since.
HONE_INLINE HoneWarp* hone_meet(unsigned mask, unsigned long long value, unsigned vote) {
  hone_go_on(hone_rt_meet(hone_block, hone_self, mask, value, vote));
  return hone_self->warp;
}

template <class T>
HONE_INLINE T hone_exchange(unsigned mask, T value, unsigned source) {
  static_assert(sizeof(T) <= 8, "a shuffle moves at most 8 bytes");
  unsigned long long bits = 0;
  __builtin_memcpy(&bits, &value, sizeof value);
  HoneWarp* warp = hone_meet(mask, bits, 0);
  bits = warp->out[source & 31];
  __builtin_memcpy(&value, &bits, sizeof value);
  return value;
}

template <class T>
HONE_INLINE T __shfl_sync(unsigned mask, T value, int source, int width = 32) {
  const unsigned lane = hone_lane();
  return hone_exchange(mask, value, (lane & ~(unsigned)(width - 1)) | ((unsigned)source & (unsigned)(width - 1)));
}
template <class T>
HONE_INLINE T __shfl_up_sync(unsigned mask, T value, unsigned delta, int width = 32) {
  const unsigned lane = hone_lane();
  return hone_exchange(mask, value, (lane & (unsigned)(width - 1)) < delta ? lane : lane - delta);
}
template <class T>
HONE_INLINE T __shfl_down_sync(unsigned mask, T value, unsigned delta, int width = 32) {
  const unsigned lane = hone_lane();
  return hone_exchange(mask, value, (lane & (unsigned)(width - 1)) + delta >= (unsigned)width ? lane : lane + delta);
}
template <class T>
HONE_INLINE T __shfl_xor_sync(unsigned mask, T value, int lane_mask, int width = 32) {
  const unsigned lane = hone_lane();
  const unsigned source = lane ^ (unsigned)lane_mask;
  return hone_exchange(mask, value, source > (lane | (unsigned)(width - 1)) ? lane : source);
}

HONE_INLINE void __syncwarp(unsigned mask = 0xffffffffu) { hone_meet(mask, 0, 0); }
HONE_INLINE unsigned __ballot_sync(unsigned mask, int predicate) {
  HoneWarp* warp = hone_meet(mask, 0, predicate != 0);
  return warp->votes_out & mask & hone_self->mask;
}
HONE_INLINE int __any_sync(unsigned mask, int predicate) { return __ballot_sync(mask, predicate) != 0; }
HONE_INLINE int __all_sync(unsigned mask, int predicate) { return __ballot_sync(mask, !predicate) == 0; }
HONE_INLINE int __uni_sync(unsigned mask, int predicate) {
  const unsigned votes = __ballot_sync(mask, predicate);
  return votes == 0 || votes == (mask & hone_self->mask);
}
// The lanes that have not returned: a thread cannot know here which of them took the same branch.
HONE_INLINE unsigned __activemask() { return hone_self->warp->alive; }

template <class T>
HONE_INLINE unsigned __match_any_sync(unsigned mask, T value) {
  unsigned long long bits = 0;
  __builtin_memcpy(&bits, &value, sizeof value);
  HoneWarp* warp = hone_meet(mask, bits, 0);
  unsigned same = 0;
  for (unsigned rest = mask & hone_self->mask; rest; rest &= rest - 1)
    if (warp->out[__builtin_ctz(rest)] == bits) same |= rest & -rest;
  return same;
}
template <class T>
HONE_INLINE unsigned __match_all_sync(unsigned mask, T value, int* all) {
  const unsigned same = __match_any_sync(mask, value);
  *all = same == (mask & hone_self->mask);
  return *all ? mask : 0;
}

template <class T, class Combine>
HONE_INLINE T hone_reduce(unsigned mask, T value, Combine combine) {
  unsigned long long bits = 0;
  __builtin_memcpy(&bits, &value, sizeof value);
  HoneWarp* warp = hone_meet(mask, bits, 0);
  unsigned rest = mask & hone_self->mask;
  T result = (T)warp->out[__builtin_ctz(rest)];
  for (rest &= rest - 1; rest; rest &= rest - 1) result = combine(result, (T)warp->out[__builtin_ctz(rest)]);
  return result;
}
#define HONE_REDUCE(name, type, expression) \
  HONE_INLINE type name(unsigned mask, type value) { \
    return hone_reduce(mask, value, [](type a, type b) -> type { return expression; }); \
  }
HONE_REDUCE(__reduce_add_sync, int, a + b)
HONE_REDUCE(__reduce_add_sync, unsigned, a + b)
HONE_REDUCE(__reduce_min_sync, int, a < b ? a : b)
HONE_REDUCE(__reduce_min_sync, unsigned, a < b ? a : b)
HONE_REDUCE(__reduce_max_sync, int, a > b ? a : b)
HONE_REDUCE(__reduce_max_sync, unsigned, a > b ? a : b)
HONE_REDUCE(__reduce_and_sync, unsigned, a & b)
HONE_REDUCE(__reduce_or_sync, unsigned, a | b)
HONE_REDUCE(__reduce_xor_sync, unsigned, a ^ b)
#undef HONE_REDUCE
#endif  // HONE_WARP_H_
