// Barriers and warp operations of kernels whose threads are fibers: who waits for whom, and who goes on next.

#include <cstring>

#include "verifier/device/cpu/include/hone/execution.h"

namespace {

bool CanGoOn(const HoneBlock* block, const HoneFiber* fiber) {
  return fiber->waits < kHoneWaitsForWarp && fiber->waits != block->generation;
}

// The lanes of `need` have all arrived: their contributions become results, and all of them can go on.
void Release(HoneWarp* warp, unsigned need) {
  if (need == 0xffffffffu) {
    std::memcpy(warp->out, warp->in, sizeof warp->out);
    warp->votes_out = warp->votes_in;
    for (HoneFiber* lane : warp->lanes) {
      lane->waits = kHoneRuns;
      lane->mask = need;
    }
  } else {
    for (unsigned rest = need; rest != 0; rest &= rest - 1) {
      const int lane = __builtin_ctz(rest);
      warp->out[lane] = warp->in[lane];
      warp->lanes[lane]->waits = kHoneRuns;
      warp->lanes[lane]->mask = need;
    }
    warp->votes_out = (warp->votes_out & ~need) | (warp->votes_in & need);
  }
  warp->arrived &= ~need;
  warp->unread |= need;
}

// The lanes that meet with a fiber.
unsigned Needed(const HoneFiber* fiber) { return (fiber->mask | 1u << fiber->lane) & fiber->warp->alive; }

bool Complete(const HoneFiber* fiber) {
  const unsigned need = Needed(fiber);
  return (fiber->warp->arrived & ~fiber->warp->deferred & need) == need;
}

void ReleaseFor(HoneFiber* fiber) {
  Release(fiber->warp, Needed(fiber));
  fiber->warp->unread &= ~(1u << fiber->lane);  // it runs next
}

void ReleaseDeferred(HoneWarp* warp) {
  while (warp->deferred != 0) {
    const unsigned need = Needed(warp->lanes[__builtin_ctz(warp->deferred)]);
    warp->deferred &= ~need;
    Release(warp, need);
  }
}

void ReleaseBlock(HoneBlock* block) {
  block->arrived = 0;
  block->count_out = block->count_in;
  block->count_in = 0;
  if (++block->generation == kHoneWaitsForWarp) block->generation = 1;
}

HoneFiber* After(HoneBlock* block, HoneFiber* fiber) {
  return fiber + 1 == block->first + block->threads ? block->first : fiber + 1;
}

// Nobody can go on, so that all have read what they met for. A thread that returned may have been the one that others
// waited for.
[[gnu::noinline]] HoneFiber* ReleaseAny(HoneBlock* block, HoneFiber* self) {
  if (block->arrived == block->alive && block->alive > 0) {
    ReleaseBlock(block);
    for (HoneFiber* fiber = After(block, self);; fiber = After(block, fiber)) {
      if (CanGoOn(block, fiber)) return fiber;
    }
  }
  for (HoneFiber* fiber = block->first; fiber != block->first + block->threads; ++fiber) {
    if (fiber->waits != kHoneWaitsForWarp) continue;
    fiber->warp->unread = 0;
    if (fiber->warp->deferred != 0) {
      ReleaseDeferred(fiber->warp);
      return fiber->warp->lanes[__builtin_ctz(fiber->warp->unread)];
    }
    if (Complete(fiber)) {
      ReleaseFor(fiber);
      return fiber;
    }
  }
  hone_rt_fail("deadlock: some threads of a block wait at a barrier or warp operation that the others never reach");
}

// The next thread that can go on.
inline HoneFiber* Next(HoneBlock* block, HoneFiber* self) {
  HoneFiber* fiber = After(block, self);
  while (!CanGoOn(block, fiber)) {
    if (fiber == self) return ReleaseAny(block, self);
    fiber = After(block, fiber);
  }
  return fiber;
}

}  // namespace

#pragma GCC visibility push(default)
extern "C" {

HoneFiber* hone_rt_arrive(HoneBlock* block, HoneFiber* self, unsigned predicate) {
  if (self == nullptr) hone_rt_fail("a barrier in a kernel that was compiled without barriers");
  block->count_in += predicate;
  if (++block->arrived == block->alive) {
    ReleaseBlock(block);
    return self;
  }
  self->waits = block->generation;
  return Next(block, self);
}

HoneFiber* hone_rt_meet(HoneBlock* block, HoneFiber* self, unsigned mask, unsigned long long value, unsigned vote) {
  if (self == nullptr) hone_rt_fail("a warp operation in a kernel that was compiled without");
  HoneWarp* warp = self->warp;
  const unsigned bit = 1u << self->lane;
  warp->unread &= ~bit;
  if (warp->deferred != 0 && warp->unread == 0) ReleaseDeferred(warp);
  warp->in[self->lane] = value;
  warp->votes_in = vote != 0 ? warp->votes_in | bit : warp->votes_in & ~bit;
  warp->arrived |= bit;
  self->mask = mask;
  if (Complete(self)) {
    if (warp->unread == 0) {
      ReleaseFor(self);
      return self;
    }
    warp->deferred |= Needed(self);
  }
  self->waits = kHoneWaitsForWarp;
  // The warp's own lanes first: their stacks are still in the nearest cache.
  for (unsigned rest = warp->alive & ~warp->arrived; rest != 0; rest &= rest - 1) {
    HoneFiber* lane = warp->lanes[__builtin_ctz(rest)];
    if (CanGoOn(block, lane)) return lane;
  }
  return Next(block, self);
}

HoneFiber* hone_rt_leave(HoneBlock* block, HoneFiber* self) {
  self->warp->alive &= ~(1u << self->lane);
  self->warp->unread &= ~(1u << self->lane);
  self->waits = kHoneReturned;
  if (--block->alive == 0) return &block->host;
  return Next(block, self);
}

}  // extern "C"
#pragma GCC visibility pop
