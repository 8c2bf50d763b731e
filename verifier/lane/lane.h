#pragma once

// A lane owns one device and judges one candidate at a time on it.
//
//   judge             this process: inputs, outputs, expected values, comparison, clock, verdict. Trusted, C++.
//   reference worker  a child: Python with torch, runs the task's reference. Trusted.
//   candidate runner  a child in the sandbox: loads the artefact, runs it on buffers it is handed. Untrusted.
//
// The service talks to a lane through LaneProcess (verifier/service/lane_process.h), which runs this class in a child process: a judge
// that dies costs one retry, never the queue.

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "base/log.h"
#include "base/protocol.h"
#include "base/signature.h"
#include "base/task.h"
#include "base/verdict.h"
#include "verifier/build/builder.h"

namespace hone::verifier {

struct LaneOptions {
  std::string device = "cpu:0";     // backend and index
  std::string python;               // interpreter with torch
  std::string sandbox;              // as ChooseSandbox takes it; "none" is said in every verdict
  int runners_ahead = 0;            // of native candidates, that an idle lane starts; 0: no more than a busy one does
  double task_memory_share = 1;     // of the memory that inputs and answers may take; less where others need the GPU's
  int cpu_core = -1;                // CPU device: the core runner and references are pinned to; -1: any
  Logger log = Logger::Discard();   // where a candidate's time went, at level debug
};

struct LaneJob {
  Task task;
  Signature signature;
  BuildResult build;                // kOk, with artefacts
  BuildResult scalar_build;         // of task.scalar_baseline when the protocol asks for Baseline::kScalar
  Protocol protocol;
  std::string trace_id;             // for log lines
};

/// What verdicts of a lane name.
struct LaneFacts {
  std::string device;               // "cpu", "NVIDIA H200"
  std::string sandbox;              // "bubblewrap" or "none"
};

/// Of the candidate runners that a job needed.
struct RunnerSupply {
  int ahead = 0;        // that stood ready when it came
  double waited_s = 0;  // for one to start, or for others to end
};

class Lane {
 public:
  static absl::StatusOr<std::unique_ptr<Lane>> Create(const LaneOptions& options);
  virtual ~Lane() = default;

  /// Checks and times. A Status is ours (reference worker gone, device lost): the caller retries elsewhere.
  /// kInvalidArgument: the task itself is unusable (its module raises, returns non-tensors).
  virtual absl::StatusOr<Verdict> Judge(const LaneJob& job) = 0;

  /// Traces a task's reference. kInvalidArgument as above, with the line of the module.
  virtual absl::StatusOr<Signature> Describe(const Task& task) = 0;

  virtual LaneFacts Facts() const = 0;

  /// Of the last job that was judged.
  virtual RunnerSupply Supply() const { return {}; }

  /// A step of what makes later jobs shorter, of at most a process's start; for when there is no job. False: nothing is left.
  virtual bool WorkAhead() { return false; }

  /// From another thread: the call that runs returns kCancelled soon, and the lane is of no further use.
  virtual void Interrupt() {}
};

}  // namespace hone::verifier
