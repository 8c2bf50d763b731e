#pragma once

// The queue of a farm: many processes on many hosts over one Redis (5 or later; KEDA's lag needs 7), through streams.
//
//   {hone}:q:lane/cuda:2   stream of one kind and priority, consumer group "workers"; an entry names a job
//   {hone}:job:<key>       the job: payload, state, tries, lease
//   {hone}:watch:<key>     which processes wait for it
//   {hone}:results:<node>  stream of outcomes for one process
//   {hone}:dead            stream of dead letters
//
// Every transition is one script, so that a process may die anywhere. What makes a farm whole again:
//   - Each process renews the leases it holds a few times per `lost_after`. A lease that nobody renewed is claimed
//     (XAUTOCLAIM) by any other process and counts as a try. A worker that hangs is bounded by the lease's own duration.
//   - A process keeps what it submitted until the outcome. When Redis has been started anew it submits all of that
//     again: what Redis saved is joined, what its crash lost starts anew. Without a connection it goes on taking
//     submissions up to `limit_bytes` and says so in its log.
//   - A worker's report waits for Redis until its lease would have ended.
//
// Beside queue.h: equals keep the order in which they entered their kind and priority (a retried job goes to the end);
// Submit returns before Redis has the job, and what Redis then refuses ends as Outcome::kRefused; a job whose
// submitters all died still runs. Outcomes of a process that died are kept for ten minutes.

#include <functional>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "base/log.h"
#include "verifier/queue/queue.h"
#include "verifier/queue/redis_connection.h"

namespace hone::verifier {

struct RedisQueueOptions {
  RedisAddress address;
  std::string version;                            // of the payloads: a queue that another one uses is refused
  std::string node;                               // names this process; empty: host, process id and a random number
  int64_t limit_bytes = int64_t{1} << 30;         // in Redis, and of what this process waits for
  int max_tries = 3;                              // leases under one kind before a job is dead
  absl::Duration retention = absl::Minutes(10);   // of results that are kept for their key
  absl::Duration lost_after = absl::Seconds(15);  // without a sign of life from its process a lease is lost
  int max_dead_letters = 1000;                    // older ones are dropped
};

/// Returns at once, also when Redis does not answer: then it goes on trying. kFailedPrecondition: Redis answers and
/// refuses us, or another version uses this queue.
absl::StatusOr<std::unique_ptr<Queue>> OpenRedisQueue(RedisQueueOptions options, Logger log);

}  // namespace hone::verifier
