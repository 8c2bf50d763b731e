// How a block of an emulated kernel runs: what the code generated in a candidate (prelude.h) and the runtime
// (runtime.cc) agree on. Plain structs, no includes: both sides compile it.
//
// A kernel without barriers runs as rows: a row is the threads of one block that differ in threadIdx.x only, and the
// candidate's code loops over a batch of them. A kernel with barriers runs each thread of a block as a fiber; the fibers
// switch among themselves, round a ring, until the last one has returned.
#ifndef HONE_VERIFIER_DEVICE_CPU_EXECUTION_H_
#define HONE_VERIFIER_DEVICE_CPU_EXECUTION_H_

struct HoneDim {
  unsigned x, y, z;
};

// The execution configuration: what stands between <<< and >>>.
struct HoneConfiguration {
  HoneDim grid, block;
  unsigned long shared_bytes;
  void* stream;
};

// Threads [begin_x, end_x) of one row of one block.
struct HoneRow {
  HoneDim block;
  unsigned thread_y, thread_z;
  unsigned begin_x, end_x;
};

// A batch of rows of one launch.
struct HoneRows {
  HoneDim grid, block;
  const HoneRow* rows;
  unsigned count;
};

// Where the lanes of one warp meet. The last lane to arrive at a shuffle or vote copies `in` to `out` for the lanes of
// its mask and releases them. Where some lane has yet to read `out`, the lanes that met are deferred until it has.
struct HoneWarp {
  unsigned alive;     // lanes that have not returned
  unsigned arrived;   // lanes that wait
  unsigned unread;    // lanes that were released and have not run since
  unsigned deferred;  // lanes that wait though all of theirs have arrived
  unsigned votes_in, votes_out;
  unsigned long long in[32], out[32];
  struct HoneFiber* lanes[32];
};

// One thread of a block with barriers: one cache line. The fibers of a block lie in the order in which they run, one
// behind the other and from the last to the first.
struct __attribute__((aligned(64))) HoneFiber {
  void* stack_pointer;
  void* resume;            // where the fiber goes on
  unsigned waits;          // HoneWait, or the generation of the block's barrier that it waits for
  unsigned mask;           // lanes that its warp operation waits for; afterwards, those that met
  HoneDim thread;
  unsigned lane;
  HoneWarp* warp;
};
enum HoneWait : unsigned { kHoneRuns = 0, kHoneWaitsForWarp = 0xfffffffe, kHoneReturned = 0xffffffff };

// One block with barriers.
struct HoneBlock {
  HoneDim grid, dim, index;
  unsigned threads;
  unsigned alive;        // threads that have not returned
  unsigned arrived;      // threads that wait at the block's barrier
  unsigned generation;   // of the barrier that threads arrive at next; from 1
  unsigned count_in, count_out;  // predicates of __syncthreads_count, _and, _or
  const void* closure;   // the kernel's arguments
  HoneFiber* first;      // [threads]
  HoneFiber host;        // the context that started the block
};

typedef void (*HoneRowsEntry)(const void* closure, const HoneRows* rows);
typedef void (*HoneBlockEntry)(HoneBlock* block);    // runs one block to its end
typedef void (*HoneThreadEntry)(HoneFiber* self);    // first code of a fiber

extern "C" {
// Remembers the configuration for the kernel call that follows.
void hone_rt_configure(const HoneConfiguration* configuration);
// Runs the configured grid. Refused launches set the error that cudaGetLastError() returns and run nothing.
void hone_rt_launch_rows(HoneRowsEntry entry, const void* closure);
void hone_rt_launch_blocks(HoneBlockEntry entry, HoneThreadEntry thread, const void* closure);
// Start of the launch's dynamic shared memory.
void* hone_rt_dynamic_shared(void) __attribute__((const));
// The running thread arrives at the block's barrier, at a warp operation, or at its end. The result is the thread to go
// on with, which may be the same one.
HoneFiber* hone_rt_arrive(HoneBlock* block, HoneFiber* self, unsigned predicate);
HoneFiber* hone_rt_meet(HoneBlock* block, HoneFiber* self, unsigned mask, unsigned long long value, unsigned vote);
HoneFiber* hone_rt_leave(HoneBlock* block, HoneFiber* self);
[[noreturn]] void hone_rt_fail(const char* what);
// Registers a __shared__ variable, so that each block finds it with undefined contents (checked builds).
void hone_rt_declare_shared(void* begin, unsigned long bytes);
// Thread `thread` of block `block` reads, changes and writes what lies at `place` (checked builds).
void hone_rt_update(const void* place, HoneDim block, unsigned thread);
int hone_rt_printf(const char* format, ...);
}
#endif  // HONE_VERIFIER_DEVICE_CPU_EXECUTION_H_
