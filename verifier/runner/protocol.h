#pragma once

// What judge, zygote and runner say to each other: fixed structs over sequenced-packet sockets of one machine, one struct
// a message. Nothing that comes from a runner is believed: the judge checks size, magic and epoch, and takes the rest as
// hearsay.
//
//   judge -> zygote   ForkRequest with {runner's socket, runner's standard error}
//   zygote -> judge   ZygoteReady once, then RunnerEnded for each runner
//   runner -> judge   kHello; carries the runner's credentials, from which the judge learns its pid. On a GPU it comes when
//                     the device is ready to be used, or with a code and a text
//   judge -> runner   kMap with {table, inputs, outputs}                -> kLoaded or kLoadFailed
//   judge -> runner   kLoad with {artefact}                             -> kLoaded or kLoadFailed
//   judge -> runner   kPrepare, to runners of Python candidates     -> kLoaded or kLoadFailed
//   judge -> runner   kRun over calls [first_call, first_call + count)  -> kDone; with a count
//                     of 0 it may come before kLoad, to learn what a message costs
//   runner -> judge   kFault at any time: a signal, sent by the handler before it ends the process
//
// The table is memory that the judge writes and the runner can only read. It describes the buffers to map and the calls
// to make; addresses are chosen by the judge, so that it can tell what a faulting address means.

#include <cstdint>

namespace hone::verifier {

inline constexpr uint32_t kRunnerMagic = 0x31454e48;  // "HNE1"
inline constexpr int kMaxDimensions = 8;

enum class CommandKind : uint32_t { kMap = 1, kLoad = 2, kRun = 3, kPrepare = 4 };
// kMap may come again with other buffers: those are then the ones that kRun is about.
enum class AnswerKind : uint32_t { kHello = 1, kLoaded = 2, kLoadFailed = 3, kDone = 4, kFault = 5 };

/// The order in which an emulated device runs blocks and threads between barriers; real devices ignore it.
enum class ThreadOrder : uint32_t { kForward = 0, kReverse = 1, kShuffled = 2 };

/// Codes of kDone from a runner of Python candidates.
enum class PythonError : int32_t {
  kNone = 0,
  kRaised = 1,       // `text` says what, and where
  kOutOfMemory = 2,
  kWrongOutput = 3,  // another number, type, shape or dtype of tensors than the reference's
};

struct ForkRequest {
  uint32_t magic = kRunnerMagic;
  uint32_t id = 0;
  uint64_t data_limit_bytes = 0;  // private memory of the runner (RLIMIT_DATA); on a GPU beyond what its driver took to start
  uint64_t cpu_limit_s = 0;       // a second line behind the judge's own deadline
};

struct ZygoteReady {
  uint32_t magic = kRunnerMagic;
  uint32_t seccomp = 0;  // whether runners are filtered
  char message[256] = {};
};

struct RunnerEnded {
  uint32_t magic = kRunnerMagic;
  uint32_t id = 0;
  int32_t fork_error = 0;   // errno of a fork that failed; the rest is then meaningless
  int32_t exited = 0;       // else it was killed by a signal
  int32_t status = 0;       // exit code or signal
  int32_t reserved = 0;
  uint64_t peak_rss_kb = 0;
};

struct Command {
  uint32_t magic = kRunnerMagic;
  CommandKind kind = CommandKind::kRun;
  uint64_t epoch = 0;        // random; echoed by the answer
  uint32_t first_call = 0;
  uint32_t call_count = 0;
  ThreadOrder order = ThreadOrder::kForward;
  uint32_t order_seed = 0;   // of kShuffled
  uint32_t checked = 0;      // kRun of one call: the device's checks are on (host access of device memory faults)
  uint32_t fresh = 0;        // kPrepare: make the module anew, with the weights that the first call's parameters hold
  uint32_t kernels_off = 0;  // with `checked`: launches do nothing and succeed
  uint32_t behind_mb = 0;    // kRun on a GPU: the first call is queued behind the writing of so much, which clears the cache
  uint64_t table_bytes = 0;  // kMap
};

struct Answer {
  uint32_t magic = kRunnerMagic;
  AnswerKind kind = AnswerKind::kHello;
  uint64_t epoch = 0;
  int32_t code = 0;            // kDone: what the failing call returned, 0 for none
  uint32_t failed_call = 0;    // kDone with a code
  int64_t process_ns = 0;      // kDone: time of the calls, as the runner saw it: processor time, or the device's events
  int32_t signal = 0;          // kFault
  int32_t system_call = -1;    // kFault by the system-call filter
  uint64_t address = 0;        // kFault: what it tried to reach
  uint64_t workspace_failed = 0;  // whether the runner could not give scratch memory
  uint64_t launches = 0;       // kDone: kernels launched by the calls, as the runner saw it
  uint32_t custom_calls = 0;   // kDone of a checked call of a Python candidate: calls into kernels of its own
  uint32_t library_calls = 0;  // ... and operators of the framework that compute; `text` names them
  char text[216] = {};         // kLoadFailed: the loader's message; kFault: the device's own explanation; kDone with a
                               // code of a Python candidate: what was raised
};

/// One stretch of a buffer to map, at a page boundary.
struct TableRegion {
  uint64_t address = 0;    // where the runner is to map it; a device may choose another
  uint64_t bytes = 0;      // on a GPU those of the whole buffer
  uint64_t offset = 0;     // in its buffer
  uint32_t writable = 0;   // 0: of the inputs, 1: of the outputs
  uint32_t reserved = 0;
};

struct TableTensor {
  int64_t shape[kMaxDimensions] = {};
  int64_t strides[kMaxDimensions] = {};  // in elements
  int32_t ndim = 0;
  int32_t dtype = 0;
  int64_t bytes = 0;
  int32_t writable = 0;
  int32_t reserved = 0;
};

/// Begins the table; offsets are in bytes from its begin.
struct TableHeader {
  uint32_t region_count = 0;
  uint32_t tensor_count = 0;
  uint32_t size_count = 0;
  uint32_t scalar_count = 0;
  uint32_t call_count = 0;
  uint32_t recipe_bytes = 0;
  uint64_t regions = 0;    // TableRegion[region_count]
  uint64_t tensors = 0;    // TableTensor[tensor_count]
  uint64_t sizes = 0;      // int64_t[size_count]
  uint64_t scalars = 0;    // double[scalar_count]
  uint64_t addresses = 0;  // uint64_t[call_count][tensor_count]
  uint64_t recipe = 0;     // char[recipe_bytes]: CallPlan::recipe, for runners of Python candidates
};

}  // namespace hone::verifier
