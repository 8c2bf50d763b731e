#pragma once

// The queue between the service and its workers. A job is a key, a payload that never changes, and a state that grows
// as it moves from kind to kind ("describe/cpu", "build/cpu", "lane/cpu"); workers lease jobs by kind, so that builds
// and lanes scale apart, on one host or on many.
//
//   Submit ──▶ waiting ──Lease──▶ leased ──Complete──▶ done
//                 ▲                  ├─Advance──▶ waiting, under another kind, tries back to 0
//                 └──────────────────┼─Fail, lost lease or dead process; after max_tries: dead
//                                    └─Release: back as if never leased
//
// Every submission ends in exactly one Outcome. Delivery to workers is at least once: a worker whose lease was lost is
// told so when it reports, and its result is dropped.

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "base/steady_time.h"
#include "base/verify_request.h"

namespace hone::verifier {

struct Submission {
  std::string key;       // submissions of one key are one job; not empty
  std::string kind;      // who may lease it first
  Priority priority = Priority::kNormal;
  std::string payload;
  std::string digest;    // of what the job is; submissions of one key must agree in it
  bool retain = false;   // a later submission of this key gets the same result, for a bounded time
};

struct LeasedJob {
  int64_t id = 0;
  int64_t lease = 0;     // names this lease; a later one of the same job has another number
  std::string key;
  std::string kind;
  std::string digest;    // of the submission
  std::string payload;
  std::string state;     // what the last Advance wrote
  int tries = 1;         // leases under this kind, this one included
  absl::Duration waited; // since the job was submitted or advanced
};

struct Outcome {
  enum class Ending { kDone, kDead, kCancelled, kRefused };
  Ending ending = Ending::kDone;
  std::string result;    // kDone: the bytes given to Complete
  std::string reason;    // kDead: of the last failure; kCancelled: by whom
  absl::Status refusal;  // kRefused: what Submit would have returned, had it waited for a queue on another host
};

/// One submission's interest in its job.
struct Ticket {
  int64_t job = 0;
  int64_t watcher = 0;
};

struct DeadLetter {
  std::string key;
  std::string kind;
  std::string reason;
};

struct QueueStats {
  struct Kind {
    int64_t waiting = 0;
    int64_t leased = 0;
  };
  std::map<std::string, Kind> kinds;
  int64_t bytes = 0;             // against the budget
  int64_t limit_bytes = 0;
  int64_t dead = 0;              // dead letters kept
  std::string trouble;           // why the queue cannot be reached; then the numbers are the last ones known
};

/// Thread-safe.
class Queue {
 public:
  using OnOutcome = std::function<void(const Outcome&)>;

  virtual ~Queue() = default;

  /// The embedded queue stores the job before it returns; it then survives the process. `on_outcome` is called once, from any thread, also
  /// from within Submit when the key has a retained result. A key that is waiting or leased is joined, and takes the
  /// higher of the two priorities; a dead or cancelled one starts anew.
  ///   kResourceExhausted: the byte budget is spent (names both numbers), or the disk is full.
  ///   kInvalidArgument: the key belongs to a job with another digest.
  virtual absl::StatusOr<Ticket> Submit(const Submission& submission, OnOutcome on_outcome) = 0;

  /// Takes back an interest: its callback will not be called after this returns, unless it is running already. A job that
  /// nobody is interested in any more and that has not started is dropped.
  virtual void Abandon(const Ticket& ticket) = 0;

  /// Ends the job of this key as cancelled for all who wait, whether it has started or not. Returns how many waited.
  virtual absl::StatusOr<int64_t> Cancel(const std::string& key) = 0;

  /// The first job of the first of `kinds` that has one, by priority and then by age. Waits until `deadline`, or until
  /// Close; then nothing. The lease ends after `duration` unless renewed.
  virtual absl::StatusOr<std::optional<LeasedJob>> Lease(absl::Span<const std::string> kinds, absl::Duration duration,
                                                         SteadyTime deadline) = 0;

  // What a worker reports about its lease. kNotFound: the lease was lost or the job cancelled; drop the work.
  virtual absl::Status Renew(const LeasedJob& job, absl::Duration duration) = 0;
  virtual absl::Status Advance(const LeasedJob& job, const std::string& kind, const std::string& state) = 0;
  virtual absl::Status Complete(const LeasedJob& job, const std::string& result) = 0;
  virtual absl::Status Fail(const LeasedJob& job, const std::string& reason) = 0;
  virtual absl::Status Release(const LeasedJob& job) = 0;

  /// Wakes every Lease that waits and lets no later one wait.
  virtual void Close() = 0;

  virtual QueueStats Stats() const = 0;
  /// The newest first.
  virtual absl::StatusOr<std::vector<DeadLetter>> DeadLetters(int limit) const = 0;
};

}  // namespace hone::verifier
