#pragma once

// The embedded queue: one SQLite file, nothing to install. Payloads and results live in the file; what decides the
// order lives in memory and is read back at start, where leases of the dead process end.

#include <functional>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "base/steady_time.h"
#include "verifier/queue/queue.h"

namespace hone::verifier {

struct SqliteQueueOptions {
  std::string path;                                    // created when missing
  std::string version;                                 // of the payloads: a file written by another one is refused
  int64_t limit_bytes = int64_t{1} << 30;              // payloads, states and retained results
  int max_tries = 3;                                   // leases under one kind before a job is dead
  absl::Duration retention = absl::Minutes(10);        // of results that are kept for their key
  int max_dead_letters = 1000;                         // older ones are dropped
  std::function<absl::Time()> now = absl::Now;         // what the file records, and retention, which outlives the process
  std::function<SteadyTime()> steady_now = SteadyTime::Now;  // of leases; both are here for tests of expiry
};

/// kFailedPrecondition: another process holds the file, or another version wrote it. kDataLoss: the file is no queue.
absl::StatusOr<std::unique_ptr<Queue>> OpenSqliteQueue(SqliteQueueOptions options);

}  // namespace hone::verifier
