#pragma once

// The instructions that C++ has no word for: launches that overlap, copies into shared memory and their barriers, matrix
// tiles, and memory that blocks of one kernel hand to each other.

#include <cuda_runtime.h>

#include <cstdint>

namespace hone::rollout::cuda {

/// Everything that earlier kernels wrote is visible after this. What comes before it may only read weights, cache pages
/// of earlier steps and the step's inputs.
__device__ __forceinline__ void WaitForEarlierKernels() { asm volatile("griddepcontrol.wait;" ::: "memory"); }
/// The next kernel may be put on the machine once every block has said so.
__device__ __forceinline__ void LetNextKernelStart() { asm volatile("griddepcontrol.launch_dependents;"); }

__device__ __forceinline__ unsigned char* DynamicShared() {
  extern __shared__ __align__(1024) unsigned char dynamic_shared[];
  return dynamic_shared;
}
__device__ __forceinline__ uint32_t SharedAddress(const void* p) { return static_cast<uint32_t>(__cvta_generic_to_shared(p)); }

// --- copies of 16 bytes, each thread's own

/// 16 bytes into shared memory, zeros when not `valid`.
__device__ __forceinline__ void CopyAsync(uint32_t to, const void* from, bool valid) {
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(to), "l"(from), "r"(valid ? 16 : 0) : "memory");
}
__device__ __forceinline__ void CommitCopies() { asm volatile("cp.async.commit_group;" ::: "memory"); }
template <int kPending>
__device__ __forceinline__ void WaitForCopies() {
  asm volatile("cp.async.wait_group %0;" ::"n"(kPending) : "memory");
}

// --- bulk copies, which arrive at a barrier in shared memory

__device__ __forceinline__ void InitBarrier(uint32_t barrier, int arrivals) {
  asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(barrier), "r"(arrivals) : "memory");
}
/// After InitBarrier and before a __syncthreads.
__device__ __forceinline__ void PublishBarriers() {
  asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
  asm volatile("fence.proxy.async;" ::: "memory");
}
__device__ __forceinline__ void Arrive(uint32_t barrier) {
  asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(barrier) : "memory");
}
/// One arrival, and the barrier also waits for so many bytes of copies.
__device__ __forceinline__ void ArriveExpecting(uint32_t barrier, uint32_t bytes) {
  asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(barrier), "r"(bytes) : "memory");
}
/// Returns once the barrier's phase of this parity has ended; that before its first one has.
__device__ __forceinline__ void WaitForPhase(uint32_t barrier, uint32_t parity) {
  uint32_t done = 0;
  while (done == 0) {
    asm volatile(
        "{\n.reg .pred p;\nmbarrier.try_wait.parity.shared::cta.b64 p, [%1], %2;\nselp.u32 %0, 1, 0, p;\n}"
        : "=r"(done)
        : "r"(barrier), "r"(parity)
        : "memory");
  }
}
/// For what is read once: it does not push out of L2 what is read again.
__device__ __forceinline__ uint64_t ReadOncePolicy() {
  uint64_t policy;
  asm volatile("createpolicy.fractional.L2::evict_first.b64 %0, 1.0;" : "=l"(policy));
  return policy;
}
/// Global to shared memory; addresses and bytes are multiples of 16.
__device__ __forceinline__ void CopyBulk(uint32_t to, const void* from, uint32_t bytes, uint32_t barrier, uint64_t policy) {
  asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.L2::cache_hint [%0], [%1], %2, [%3], %4;" ::"r"(to),
               "l"(from), "r"(bytes), "r"(barrier), "l"(policy)
               : "memory");
}

/// Global memory into L2; as CopyBulk.
__device__ __forceinline__ void PrefetchBulk(const void* from, uint32_t bytes) {
  asm volatile("cp.async.bulk.prefetch.L2.global [%0], %1;" ::"l"(from), "r"(bytes) : "memory");
}

// --- tiles of 8 x 8 and their products

__device__ __forceinline__ void LoadMatrices(uint32_t (&r)[4], uint32_t at) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
               : "r"(at)
               : "memory");
}
__device__ __forceinline__ void LoadMatricesTransposed(uint32_t (&r)[4], uint32_t at) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
               : "r"(at)
               : "memory");
}
/// c [16, 8] += a [16, 16] b [16, 8]
__device__ __forceinline__ void Multiply(float (&c)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1) {
  asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
               : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
               : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

// --- blocks of one kernel that wait for each other

/// Words that other blocks look at. A word of 4 or 8 bytes arrives whole; nothing is said about others.
__device__ __forceinline__ void Publish(uint32_t* to, uint32_t word) { asm volatile("st.relaxed.gpu.global.u32 [%0], %1;" ::"l"(to), "r"(word) : "memory"); }
__device__ __forceinline__ void Publish(uint64_t* to, uint64_t word) { asm volatile("st.relaxed.gpu.global.u64 [%0], %1;" ::"l"(to), "l"(word) : "memory"); }
/// Four words, aligned to 16 bytes, each as it is now.
__device__ __forceinline__ uint4 Look(const uint32_t* from) {
  uint4 v;
  asm volatile("ld.relaxed.gpu.global.v4.u32 {%0, %1, %2, %3}, [%4];" : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w) : "l"(from) : "memory");
  return v;
}
__device__ __forceinline__ uint64_t Look(const uint64_t* from) {
  uint64_t v;
  asm volatile("ld.relaxed.gpu.global.u64 %0, [%1];" : "=l"(v) : "l"(from) : "memory");
  return v;
}
/// A barrier of the block's first kThreads threads, besides __syncthreads.
template <int kThreads>
__device__ __forceinline__ void SyncFirst() {
  asm volatile("bar.sync 1, %0;" ::"n"(kThreads) : "memory");
}

}  // namespace hone::rollout::cuda
