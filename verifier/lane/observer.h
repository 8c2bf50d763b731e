#pragma once

// One call of a native candidate, watched by the device vendor's own tools: why it faults or is wrong, and what its kernels
// did. Asked for by the protocol, never part of a verdict's status or speed.
//
// The call is made by `hone-runner --once` in a sandbox like a runner's, on inputs and memory of its own: every tensor is an
// allocation of exactly its size, so that the checker sees the first byte beyond. A tool starts and talks to the process it
// watches, which a runner's system-call filter forbids; this process has none, and nothing to gain: the verdict stands.

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "base/verdict.h"
#include "verifier/lane/lane.h"
#include "verifier/lane/task_sets.h"

namespace hone::verifier {

struct ObserverOptions {
  std::string program;                     // hone-runner
  std::string sandbox;                     // "bubblewrap" or "none"
  std::vector<std::string> libraries;      // that runners load, as for RunnerHostOptions
  std::string gpu_backend;                 // "cuda"; empty: the host
  std::string gpu_driver;                  // absolute path of the driver's library
  std::vector<std::string> devices;        // device nodes inside the sandbox
  std::vector<std::string> environment;
  std::string checker;                     // compute-sanitizer; empty: there is none
  std::string profiler;                    // ncu; empty: there is none
  absl::Duration timeout = absl::Seconds(60);  // of one tool
};

/// Not thread-safe. Nothing else may be timed meanwhile.
class Observer {
 public:
  /// `device` outlives it.
  Observer(const Device* device, ObserverOptions options) : device_(device), options_(std::move(options)) {}

  /// What the checker's tools say about a call on the first set of `check`: the first report among those on memory, races
  /// of shared memory, uninitialised memory and barriers. Empty: none found anything. kUnavailable: there is no checker, or it does not work
  /// here.
  absl::StatusOr<std::string> Sanitize(const LaneJob& job, const CheckCase& check) const;

  /// The kernels of a call on the first set of `check`, the one with most time first. kUnavailable: there is no profiler,
  /// or this process may not read the device's counters.
  absl::StatusOr<std::vector<KernelProfile>> Profile(const LaneJob& job, const CheckCase& check) const;

 private:
  absl::StatusOr<std::string> Watch(const std::vector<std::string>& tool, const std::string& folder) const;
  absl::Status Describe(const LaneJob& job, const CheckCase& check, const std::string& folder) const;

  const Device* device_;
  const ObserverOptions options_;
};

}  // namespace hone::verifier
