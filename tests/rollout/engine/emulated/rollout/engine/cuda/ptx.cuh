#pragma once

// The words of rollout/engine/cuda/ptx.cuh on the CPU of gpu.h.

#include "cuda_runtime_api.h"

namespace hone::rollout::cuda {

inline void WaitForEarlierKernels() {}
inline void LetNextKernelStart() {}

unsigned char* DynamicShared();
uint32_t SharedAddress(const void* p);

void CopyAsync(uint32_t to, const void* from, bool valid);
inline void CommitCopies() {}
void FinishCopies();
template <int kPending>
void WaitForCopies() {
  FinishCopies();
}

void InitBarrier(uint32_t barrier, int arrivals);
inline void PublishBarriers() {}
void Arrive(uint32_t barrier);
void ArriveExpecting(uint32_t barrier, uint32_t bytes);
void WaitForPhase(uint32_t barrier, uint32_t parity);
inline uint64_t ReadOncePolicy() { return 0; }
inline void PrefetchBulk(const void*, uint32_t) {}
void CopyBulk(uint32_t to, const void* from, uint32_t bytes, uint32_t barrier, uint64_t policy);

void LoadMatrices(uint32_t (&r)[4], uint32_t at);
void LoadMatricesTransposed(uint32_t (&r)[4], uint32_t at);
void Multiply(float (&c)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1);

void Publish(uint32_t* to, uint32_t word);
void Publish(uint64_t* to, uint64_t word);
uint4 Look(const uint32_t* from);
uint64_t Look(const uint64_t* from);
template <int kThreads>
void SyncFirst() {
  emulated::SyncBlock(1, kThreads);
}

}  // namespace hone::rollout::cuda
