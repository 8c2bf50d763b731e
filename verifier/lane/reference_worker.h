#pragma once

// The judge's end of the reference worker: a persistent Python child with torch that runs tasks' references. Trusted, and
// still a child: a reference that crashes or hangs costs one retry.
//
// Errors of all calls: kInvalidArgument, the task's module is at fault (message has the line); kUnavailable, the worker
// died or did not answer in time, and the next call finds a new one without any pools (`generation` counts them).

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "base/signature.h"
#include "base/steady_time.h"
#include "base/subprocess.h"
#include "base/task.h"

namespace hone::verifier {

struct ReferenceWorkerOptions {
  std::string python;   // interpreter with torch
  std::string script;   // reference_worker.py
  int cpu_core = -1;    // -1: any
  std::vector<int> cores;  // that it keeps to; empty: those of this process
  std::string device;   // where references run, as torch calls it: "cuda"; empty: the CPU
  std::vector<std::string> environment;  // "KEY=value" besides its own
  absl::Duration timeout = absl::Seconds(120);  // of one call
};

/// What one call of a task looks like at one choice of its constants.
struct CallPlan {
  std::vector<TensorSpec> tensors;  // inputs, parameters, outputs, as in the signature
  std::vector<double> scalars;      // of the signature
  Sizes constants;                  // the module's integers at this choice
  std::string recipe;               // how a module is made and called, a Python literal (reference_worker.py); empty:
                                    // the task is none for Python candidates
};

/// Input sets with their expected outputs, to be written into shared memory: set i begins at i * set_bytes, tensor t of it
/// at offsets[t], from first_set on.
struct FillRequest {
  int64_t pool = 0;                 // the caller's name for it
  Sizes sizes;
  ValueProfile profile = ValueProfile::kAsGiven;
  bool keep = false;                // sets stay callable, for TimeEager
  int memory_fd = -1;
  int64_t memory_bytes = 0;
  int first_set = 0;                // 0: a new pool; else these sets follow those it has
  int64_t set_bytes = 0;
  std::vector<int64_t> offsets;     // [tensors]
  std::vector<int64_t> seeds;       // [sets], of the inputs
  std::vector<int64_t> parameter_seeds;  // [sets]; equal ones share their weights
};

/// Medians of a reference's calls, in ns.
struct EagerTime {
  double call_ns = 0;
  double copy_ns = 0;  // of copying a call's outputs into other memory, after the call
};

class ReferenceWorker {
 public:
  /// Starts it; returns before torch is imported, which the first call waits for.
  static absl::StatusOr<std::unique_ptr<ReferenceWorker>> Create(ReferenceWorkerOptions options);
  ~ReferenceWorker();

  absl::StatusOr<Signature> Describe(const Task& task);
  /// kInvalidArgument also when `signature` does not fit the task.
  absl::StatusOr<CallPlan> Plan(const Task& task, const Signature& signature, const Sizes& sizes);
  absl::Status Fill(const Task& task, const CallPlan& plan, const FillRequest& request);
  /// Of each output, the root-mean-square error against the same task in float64, relative to the output's size. Empty
  /// where the task does not run in float64.
  absl::StatusOr<std::vector<double>> OwnErrors(const Task& task, const Sizes& sizes, int64_t seed);
  /// Time of one forward call over the sets [warm, warm + calls) of a pool with `sets` sets, after calls over the sets
  /// [0, warm) that bring its code in; past the last set it goes on with set `warm`. On the CPU the median processor time of
  /// a call; on a device the mean between two events, behind a call that keeps it busy or, with `by_events`, behind what
  /// KernelBench clears the cache with.
  /// `copies`: those are to be measured, too.
  absl::StatusOr<EagerTime> TimeEager(int64_t pool, int sets, int warm, int calls, bool copies,
                                      bool by_events = false);
  void Release(int64_t pool);

  /// From another thread: the call that runs fails soon, and so do all later ones.
  void Interrupt();

  /// Changes whenever pools were lost.
  int64_t generation() const { return generation_; }
  pid_t pid() const { return child_ ? child_->pid() : -1; }

 private:
  struct Exchange;
  explicit ReferenceWorker(ReferenceWorkerOptions options) : options_(std::move(options)) {}
  absl::Status StartIfGone();
  absl::Status Lost(const std::string& what);
  /// `request` and the reply are JSON texts.
  absl::StatusOr<std::string> Call(const std::string& request, int fd = -1);
  absl::StatusOr<std::string> ReadFrame(SteadyTime deadline);

  ReferenceWorkerOptions options_;
  std::optional<Child> child_;
  UniqueFd socket_;
  std::atomic<bool> interrupted_ = false;
  std::atomic<pid_t> interruptible_ = -1;  // the child, while it is not yet reaped
  bool greeted_ = false;  // the new child's first frame was read
  int64_t generation_ = 0;
};

}  // namespace hone::verifier
