#pragma once

// A rollout worker's side of the coordinator: leases groups, keeps the leases alive while they are sampled and judged,
// delivers. gRPC hidden.

#include <atomic>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "base/episode.h"
#include "trainer/coordinator/lease_table.h"

namespace hone::trainer {

struct WorkerOptions {
  std::string coordinator;                        // "host:port" or "unix:/path"
  std::string name;                               // unique among the workers that run
  int64_t groups = 1;                             // leased at a time
  absl::Duration wait = absl::Seconds(10);        // of one question for work
  absl::Duration unreachable = absl::Minutes(5);  // without an answer: give up
  const std::atomic<bool>* stop = nullptr;        // true: return after the groups at hand; may be null
};

struct WorkerReport {
  int64_t counted = 0;   // groups that went into a batch
  int64_t unwanted = 0;  // delivered after somebody else, or too late
  int64_t refused = 0;   // what the coordinator found wrong
  int64_t given_back = 0;
};

/// Samples what was leased: a group for each request, in order. Called from the thread that runs the worker. An error
/// gives all of them back, and the worker goes on; kCancelled ends it.
using SampleGroups = std::function<absl::StatusOr<std::vector<Group>>(absl::Span<const LeasedGroup>)>;

/// Works until the run is over or `stop`: both are OK. kInvalidArgument: an option. kUnavailable: nobody has answered
/// for `unreachable`; a coordinator that restarts is waited for, with back-off.
absl::StatusOr<WorkerReport> RunWorker(const WorkerOptions& options, const SampleGroups& sample);

}  // namespace hone::trainer
