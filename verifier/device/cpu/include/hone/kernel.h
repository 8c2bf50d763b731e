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
static int hone_global_x;  // blockIdx.x * blockDim.x + threadIdx.x
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
    // The loop counts the index that nearly every kernel computes first (hone_global_x) as a signed number of known
    // range: so the compiler can split the loop at the kernel's own bound check and see contiguous accesses.
    int thread_x = (int)row->begin_x;
    const int begin = (int)(hone_block_index.x * hone_block_dim.x) + thread_x;
    const int end = begin + (int)(row->end_x - row->begin_x);
    if (thread_x < 0 || begin < 0) __builtin_unreachable();
    if constexpr (kIndependent) {
#pragma GCC ivdep
      for (int x = begin; x < end; ++x, ++thread_x) {
        hone_global_x = x;
        hone_thread_index.x = (unsigned)thread_x;
        Body thread = body;
        thread();
      }
    } else {
      for (int x = begin; x < end; ++x, ++thread_x) {
        hone_global_x = x;
        hone_thread_index.x = (unsigned)thread_x;
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

// The left side of a kernel's `+=` and the like, in checked builds: see hone_rt_update.
template <class T>
HONE_INLINE T& hone_update(T& place) {
  hone_rt_update(&place, {blockIdx.x, blockIdx.y, blockIdx.z},
                 (threadIdx.z * blockDim.y + threadIdx.y) * blockDim.x + threadIdx.x);
  return place;
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
static int hone_block_start;   // blockIdx.x * blockDim.x

HONE_INLINE void hone_be(const HoneFiber* self) {
  hone_thread_index = {self->thread.x, self->thread.y, self->thread.z};
  hone_global_x = hone_block_start + (int)self->thread.x;
}

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

template <class Body>
[[noreturn]] static void hone_thread(HoneFiber* self) {
  hone_self = self;
  hone_be(self);
  {
    Body body = *(const Body*)hone_block->closure;
    body();
  }
  hone_switch(hone_self, hone_rt_leave(hone_block, hone_self));
  __builtin_unreachable();
}

static void hone_run_block(HoneBlock* block) {
  hone_block = block;
  hone_grid_dim = dim3(block->grid.x, block->grid.y, block->grid.z);
  hone_block_dim = dim3(block->dim.x, block->dim.y, block->dim.z);
  hone_block_index = {block->index.x, block->index.y, block->index.z};
  hone_block_start = (int)(block->index.x * block->dim.x);
  hone_switch(&block->host, block->first);
}

template <class Body>
HONE_INLINE void hone_run_blocks(const Body& body) {
  hone_rt_launch_blocks(&hone_run_block, &hone_thread<Body>, &body);
}

// Goes on as `next`, and comes back as the thread that called.
HONE_INLINE void hone_go_on(HoneFiber* next) {
  if (next == hone_self) return;
  hone_switch(hone_self, next);
  hone_be(hone_self);
}

// One predicate per thread comes along; the sum over the block is returned to all. Threads that have returned do not
// take part, as on devices since Volta.
HONE_INLINE unsigned hone_barrier(unsigned predicate) {
  hone_go_on(hone_rt_arrive(hone_block, hone_self, predicate));
  return hone_block->count_out;
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
