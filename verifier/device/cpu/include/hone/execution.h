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
// its mask and releases them; they read `out` before any of them can arrive at the next one.
struct HoneWarp {
  unsigned alive;     // lanes that have not returned
  unsigned arrived;   // lanes that wait
  unsigned released;  // lanes whose operation is complete and that have not gone on yet
  unsigned votes_in, votes_out;
  unsigned long long in[32], out[32];
};

// One thread of a block with barriers. 64 bytes: one cache line.
struct HoneFiber {
  void* stack_pointer;
  void* resume;            // where the fiber goes on
  HoneFiber* next;         // ring of the block's threads that have not returned
  HoneFiber* previous;
  HoneFiber* warp_next;    // ring of the warp's lanes, returned ones included
  HoneWarp* warp;
  HoneDim thread;
  unsigned lane;
};

// One block with barriers.
struct HoneBlock {
  HoneDim grid, dim, index;
  unsigned alive;        // threads that have not returned
  unsigned arrived;      // threads that wait at the block's barrier
  unsigned generation;   // completed barriers
  unsigned count_in, count_out;  // predicates of __syncthreads_count, _and, _or
  unsigned stalls;       // resumptions since a thread last got on; detects barriers that can never complete
  const void* closure;   // the kernel's arguments
  HoneFiber* first;
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
// Called when all threads only wait; ends the process when nothing can complete.
void hone_rt_stalled(HoneBlock* block);
[[noreturn]] void hone_rt_fail(const char* what);
// Registers a __shared__ variable, so that each block finds it with undefined contents (checked builds).
void hone_rt_declare_shared(void* begin, unsigned long bytes);
int hone_rt_printf(const char* format, ...);
}
#endif  // HONE_VERIFIER_DEVICE_CPU_EXECUTION_H_
