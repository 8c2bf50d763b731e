// Kernels: the built-in variables, the launch, the block barrier. The rewriter (verifier/build/rewriter.h) turns
//   __global__ void k(int n) { body }   into   void k(int n) { ::hone_run_rows([=]() mutable { body }); }
//   k<<<grid, block>>>(n)               into   (::hone_configure(grid, block), k(n))
// and chooses hone_run_blocks for kernels that meet at barriers.
#ifndef HONE_KERNEL_H_
#define HONE_KERNEL_H_

// Private to the translation unit and never escaping, so that the compiler forwards each store to the loads in the body
// and sees a plain loop over threadIdx.x.
static uint3 hone_thread_index, hone_block_index;
static dim3 hone_block_dim, hone_grid_dim;
static const uint3& threadIdx = hone_thread_index;
static const uint3& blockIdx = hone_block_index;
static const dim3& blockDim = hone_block_dim;
static const dim3& gridDim = hone_grid_dim;
static const int warpSize = 32;

HONE_INLINE void hone_configure(dim3 grid, dim3 block, size_t shared_bytes = 0, cudaStream_t stream = nullptr) {
  const HoneConfiguration configuration = {
      {grid.x, grid.y, grid.z}, {block.x, block.y, block.z}, shared_bytes, (void*)stream};
  hone_rt_configure(&configuration);
}

// kIndependent: the body keeps nothing in memory but what it writes through pointers, so that the iterations of a row
// may overlap. The rewriter withholds it from kernels with local arrays, atomics or volatile accesses.
template <bool kIndependent, class Body>
static void hone_rows(const void* closure, const HoneRows* batch) {
  const Body body = *(const Body*)closure;
  hone_grid_dim = dim3(batch->grid.x, batch->grid.y, batch->grid.z);
  hone_block_dim = dim3(batch->block.x, batch->block.y, batch->block.z);
  const HoneRow* row = batch->rows;
  for (const HoneRow* last = row + batch->count; row != last; ++row) {
    hone_block_index = {row->block.x, row->block.y, row->block.z};
    hone_thread_index.y = row->thread_y;
    hone_thread_index.z = row->thread_z;
    const unsigned end = row->end_x;
    if constexpr (kIndependent) {
#pragma GCC ivdep
      for (unsigned x = row->begin_x; x < end; ++x) {
        hone_thread_index.x = x;
        Body thread = body;
        thread();
      }
    } else {
      for (unsigned x = row->begin_x; x < end; ++x) {
        hone_thread_index.x = x;
        Body thread = body;
        thread();
      }
    }
  }
}

template <bool kIndependent, class Body>
HONE_INLINE void hone_run_rows(const Body& body) {
  hone_rt_launch_rows(&hone_rows<kIndependent, Body>, &body);
}

// `extern __shared__ T name[];` outside any function: every use asks for the launch's memory.
template <class T>
struct hone_dynamic_shared {
  operator T*() const { return (T*)hone_rt_dynamic_shared(); }
  T& operator[](size_t i) const { return ((T*)hone_rt_dynamic_shared())[i]; }
};

// ---- kernels that meet at barriers

static HoneFiber* hone_self;   // the running fiber
static HoneBlock* hone_block;  // its block

// Leaves fiber `self` and goes on with `next`; returns when some fiber switches back. Every register is declared lost,
// so that the compiler saves only those that are live, and the jump target is the same for all threads of a phase.
HONE_INLINE void hone_switch(HoneFiber* self, HoneFiber* next) {
#if defined(__x86_64__)
  asm volatile(
      "push %%rbp\n\t"
      "lea 1f(%%rip), %%rax\n\t"
      "mov %%rsp, (%%rsi)\n\t"
      "mov %%rax, 8(%%rsi)\n\t"
      "mov (%%rdi), %%rsp\n\t"
      "jmp *8(%%rdi)\n"
      "1:\n\t"
      "pop %%rbp\n\t"
      : "+D"(next), "+S"(self)
      :
      : "rax", "rbx", "rcx", "rdx", "r8", "r9", "r10", "r11", "r12", "r13", "r14", "r15", "xmm0", "xmm1", "xmm2", "xmm3",
        "xmm4", "xmm5", "xmm6", "xmm7", "xmm8", "xmm9", "xmm10", "xmm11", "xmm12", "xmm13", "xmm14", "xmm15",
#if defined(__AVX512F__)
        "xmm16", "xmm17", "xmm18", "xmm19", "xmm20", "xmm21", "xmm22", "xmm23", "xmm24", "xmm25", "xmm26", "xmm27",
        "xmm28", "xmm29", "xmm30", "xmm31", "k1", "k2", "k3", "k4", "k5", "k6", "k7",
#endif
        "memory", "cc");
#elif defined(__aarch64__)
  register HoneFiber* to asm("x0") = next;
  register HoneFiber* from asm("x1") = self;
  asm volatile(
      "stp x29, x30, [sp, #-16]!\n\t"
      "adr x2, 1f\n\t"
      "mov x3, sp\n\t"
      "stp x3, x2, [x1]\n\t"
      "ldp x3, x2, [x0]\n\t"
      "mov sp, x3\n\t"
      "br x2\n"
      "1:\n\t"
      "ldp x29, x30, [sp], #16\n\t"
      : "+r"(to), "+r"(from)
      :
      : "x2", "x3", "x4", "x5", "x6", "x7", "x8", "x9", "x10", "x11", "x12", "x13", "x14", "x15", "x16", "x17", "x19",
        "x20", "x21", "x22", "x23", "x24", "x25", "x26", "x27", "x28", "v0", "v1", "v2", "v3", "v4", "v5", "v6", "v7",
        "v8", "v9", "v10", "v11", "v12", "v13", "v14", "v15", "v16", "v17", "v18", "v19", "v20", "v21", "v22", "v23",
        "v24", "v25", "v26", "v27", "v28", "v29", "v30", "v31", "memory", "cc");
  next = to;
#else
#error "the CPU backend's context switch is written for x86-64 and aarch64"
#endif
  hone_self = next;  // the register holds whoever is resumed
}

// Waits a turn: goes on with `next` and comes back as the same thread.
HONE_INLINE void hone_yield(HoneFiber* self, HoneFiber* next) {
  if (__builtin_expect(next == self, 0)) {
    hone_rt_stalled(hone_block);
    return;
  }
  hone_switch(self, next);
  hone_thread_index = {hone_self->thread.x, hone_self->thread.y, hone_self->thread.z};
}

template <class Body>
[[noreturn]] static void hone_thread(HoneFiber* self) {
  hone_self = self;
  hone_thread_index = {self->thread.x, self->thread.y, self->thread.z};
  {
    Body body = *(const Body*)hone_block->closure;
    body();
  }
  self = hone_self;
  HoneBlock* block = hone_block;
  HoneFiber* next = self->next;
  self->previous->next = next;
  next->previous = self->previous;
  self->warp->alive &= ~(1u << self->lane);
  block->stalls = 0;
  if (--block->alive == 0) next = &block->host;
  hone_switch(self, next);
  __builtin_unreachable();
}

static void hone_run_block(HoneBlock* block) {
  hone_block = block;
  hone_grid_dim = dim3(block->grid.x, block->grid.y, block->grid.z);
  hone_block_dim = dim3(block->dim.x, block->dim.y, block->dim.z);
  hone_block_index = {block->index.x, block->index.y, block->index.z};
  hone_switch(&block->host, block->first);
}

template <class Body>
HONE_INLINE void hone_run_blocks(const Body& body) {
  hone_rt_launch_blocks(&hone_run_block, &hone_thread<Body>, &body);
}

// One predicate per thread comes along; the sum over the block is returned to all. Threads that have returned do not
// take part, as on devices since Volta.
HONE_INLINE unsigned hone_barrier(unsigned predicate) {
  HoneBlock* block = hone_block;
  if (__builtin_expect(block == nullptr, 0)) hone_rt_fail("a barrier in a kernel that was compiled without barriers");
  const unsigned generation = block->generation;
  block->count_in += predicate;
  ++block->arrived;
  for (HoneFiber* self = hone_self;; self = hone_self) {
    if (block->generation != generation) return block->count_out;
    if (block->arrived == block->alive) {
      block->arrived = 0;
      block->count_out = block->count_in;
      block->count_in = 0;
      block->stalls = 0;
      block->generation = generation + 1;
      return block->count_out;
    }
    hone_yield(self, self->next);
    if (__builtin_expect(block->generation == generation && block->arrived != block->alive, 0)) hone_rt_stalled(block);
  }
}

HONE_INLINE void __syncthreads() { hone_barrier(0); }
HONE_INLINE int __syncthreads_count(int predicate) { return (int)hone_barrier(predicate != 0); }
HONE_INLINE int __syncthreads_or(int predicate) { return hone_barrier(predicate != 0) != 0; }
HONE_INLINE int __syncthreads_and(int predicate) { return hone_barrier(predicate == 0) == 0; }
HONE_INLINE void __threadfence() { asm volatile("" ::: "memory"); }
HONE_INLINE void __threadfence_block() { asm volatile("" ::: "memory"); }
HONE_INLINE void __threadfence_system() { asm volatile("" ::: "memory"); }
HONE_INLINE void __nanosleep(unsigned) {}
#endif  // HONE_KERNEL_H_
