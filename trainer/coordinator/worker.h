#pragma once

// A rollout worker's side of the coordinator: joins a run, leases groups, keeps the leases alive while they are sampled
// and judged, delivers. gRPC hidden.

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "base/episode.h"
#include "trainer/coordinator/lease_table.h"
#include "trainer/coordinator/run_desk.h"

namespace hone::trainer {

struct WorkerOptions {
  std::string coordinator;                        // "host:port" or "unix:/path"
  std::string name;                               // unique among the workers that run
  int64_t groups = 1;                             // leased at a time
  absl::Duration wait = absl::Seconds(10);        // of one question for work
  absl::Duration unreachable = absl::Minutes(5);  // without an answer: give up
  int64_t failures = 5;                           // groups given back by failed samplings in a row: give up
  const std::atomic<bool>* stop = nullptr;        // true: leases go back at once, and the work ends; may be null
  /// Hears what is waited for when nobody answers; may be empty.
  std::function<void(const std::string& what)> on_wait;
};

struct WorkerReport {
  int64_t counted = 0;   // groups that went into a batch
  int64_t unwanted = 0;  // delivered after somebody else, or too late
  int64_t refused = 0;   // what the coordinator found wrong
  int64_t given_back = 0;
};

/// What was leased, sampled: a group for each request, in order.
struct SampledWork {
  std::vector<Group> groups;
  WorkSeconds seconds;
};

/// Called from the thread that runs the worker. An error gives all leases back, and the worker goes on, after a pause
/// that grows with each failure in a row; kCancelled ends it.
using SampleGroups = std::function<absl::StatusOr<SampledWork>(absl::Span<const LeasedGroup>)>;

/// A worker's connection. One thread at a time. While nobody answers, every call tries again for `unreachable`, then it
/// is kUnavailable; `stop` ends it at once with kCancelled.
class WorkerLink {
 public:
  /// kInvalidArgument: an option.
  static absl::StatusOr<std::unique_ptr<WorkerLink>> Create(const WorkerOptions& options);
  ~WorkerLink();

  /// What the run is. Later calls are of this start of it.
  absl::StatusOr<RunDescription> Join();
  /// Later calls are of `run`, which another link has joined in the worker's name.
  void Use(const RunDescription& run);

  /// Waits up to `wait` for the learner to send weights; none: ask again. kAborted: the run was started anew.
  absl::StatusOr<std::optional<WeightGrant>> AwaitWeights(int64_t held, bool connected, absl::Duration wait);

  /// Works until the run is over or `stop`: both are OK. kAborted: the run was started anew, join it again.
  /// After `failures` failed samplings in a row: the last one's error.
  absl::StatusOr<WorkerReport> Work(const SampleGroups& sample);

  /// Says that the worker ends. Tried once.
  void Leave();

 private:
  class State;
  explicit WorkerLink(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

/// WorkerLink::Work of a run that deals out prompts alone.
absl::StatusOr<WorkerReport> RunWorker(const WorkerOptions& options, const SampleGroups& sample);

}  // namespace hone::trainer
