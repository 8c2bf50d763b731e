// What a runner asks of the CPU backend's runtime library (libhone_cpu_runtime.so) besides the CUDA API itself. Plain C.
// The runner links the library, so that an artefact finds its symbols when it is opened. One process runs one candidate;
// nothing here is thread-safe.
#ifndef HONE_VERIFIER_DEVICE_CPU_RUNTIME_H_
#define HONE_VERIFIER_DEVICE_CPU_RUNTIME_H_

#ifdef __cplusplus
extern "C" {
#endif

enum HoneCpuOrder {
  HONE_CPU_FORWARD = 0,   // blocks and threads in ascending order
  HONE_CPU_REVERSE = 1,
  HONE_CPU_SHUFFLED = 2,  // from `seed`
};

struct HoneCpuMode {
  int order;                // HoneCpuOrder: exposes results that depend on which thread runs first
  unsigned long long seed;
  int checked;              // device memory is out of host code's reach; __shared__ starts poisoned in each block
  int kernels_off;          // launches within limits do nothing and succeed; they still count
};

/// Holds for the launches that follow. The default is {HONE_CPU_FORWARD, 0, 0, 0}: what is timed.
void hone_cpu_set_mode(const struct HoneCpuMode* mode);

/// Tells the runtime of device memory that the runner owns: whole pages. In checked mode kernels reach it (read-only ones
/// for reading) and host code does not: a host access faults. Returns 0, or -1 when too many are registered (1024).
int hone_cpu_register_buffer(void* begin, unsigned long long bytes, int writable);
void hone_cpu_unregister_buffers(void);

/// Frees what the candidate allocated and forgets its errors, attributes and counters; registered buffers stay.
void hone_cpu_reset(void);

/// First error since the reset, whether or not the candidate read it: 0, or a cudaError. A refused launch is one.
int hone_cpu_first_error(void);
/// Kernels that ran since the reset.
unsigned long long hone_cpu_launches(void);
/// Why the runtime ended the process with an illegal instruction (a barrier that can never complete, a failed assertion),
/// or "". Safe in a signal handler.
const char* hone_cpu_fault(void);
/// Names what lies at an address that faulted: "12 bytes past the end of a device buffer of 400 bytes", or "". Safe in a
/// signal handler.
const char* hone_cpu_explain_address(const void* address);
/// The same for a handler's third argument, and whether it was read or written: "writing 12 bytes past the end of ...".
const char* hone_cpu_explain_fault(const void* address, const void* ucontext);

/// Memory for hone_workspace() of the ABI: the runner's own implementation may be used instead. 256-byte aligned.
void* hone_cpu_allocate(unsigned long long bytes);

#ifdef __cplusplus
}
#endif
#endif  // HONE_VERIFIER_DEVICE_CPU_RUNTIME_H_
