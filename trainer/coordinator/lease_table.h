#pragma once

// Which worker samples which prompt: the coordinator's memory. No torch, no network.
//
//   Open(batch) ─▶ due ─Lease─▶ leased ─Deliver─▶ delivered ─Cut─▶ the batch
//                   ▲             │
//                   └─ lost, given back, refused
//
// A lease that is not renewed in time is lost, and its group is due again, first in line. A batch is cut when all of
// its groups are there, or a quorum is and a grace has passed. Stragglers are carried over: they stay leased, or due
// before all newer groups, and go with the batch that is cut when they have come, unless they are too old for it by
// then. A group that nobody can sample is given up after some attempts and named, so that one prompt cannot hold up a
// run.

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "base/episode.h"
#include "base/steady_time.h"
#include "rollout/episode/driver.h"

namespace hone::trainer {

struct LeaseOptions {
  absl::Duration lease = absl::Seconds(60);  // lost when it is not renewed for so long
  double quorum = 1;                         // share of a batch's own groups, in (0, 1]
  absl::Duration grace = absl::Seconds(30);  // for the rest, from the quorum on
  int64_t max_attempts = 5;                  // leases of a group that may be lost, given back or refused
  std::string session;                       // part of the leases' names: those of another table are void here
};

/// What a worker is given.
struct LeasedGroup {
  std::string lease;
  rollout::GroupRequest request;
  uint64_t seed = 0;
  int64_t oldest_version = 0;  // that a token should have: an older one may make the group too old for its batch
  int64_t ready_version = -1;  // of weights that can be had at once; negative: none
};

/// What became of a batch.
struct CutBatch {
  std::vector<Group> groups;  // its own in the order in which they were opened, then carried ones of earlier batches
  int64_t carried_in = 0;     // of them, from earlier batches
  int64_t carried_over = 0;   // of its own and earlier ones, still to come
  int64_t stale = 0;          // groups of earlier batches that came too late for it and were dropped
  int64_t lost_leases = 0;    // since the cut before: not renewed
  int64_t returned_leases = 0;  // since the cut before: given back or refused
  std::vector<std::string> failed;  // since the cut before, "group g7: reason": given up
};

/// Thread-safe.
class LeaseTable {
 public:
  /// `now` tells when leases run out; tests bring their own. kInvalidArgument names the option and its range.
  static absl::StatusOr<std::unique_ptr<LeaseTable>> Create(const LeaseOptions& options,
                                                            std::function<SteadyTime()> now = SteadyTime::Now);

  /// The groups of the next batch become due. Ids are unique in a run. `oldest_version`: of any of its tokens; it never
  /// goes back. kInvalidArgument: an id is known; no group.
  absl::Status Open(std::vector<rollout::GroupRequest> groups, uint64_t seed, int64_t oldest_version)
      ABSL_LOCKS_EXCLUDED(mutex_);

  /// Waits until the oldest batch that is open can be cut, and cuts it. kDeadlineExceeded says which groups it waits
  /// for and who has them; kFailedPrecondition: none is open; else Close's status.
  absl::StatusOr<CutBatch> Cut(SteadyTime deadline) ABSL_LOCKS_EXCLUDED(mutex_);

  /// "g3 at worker w, g5 with nobody": what the oldest batch that is open lacks, earlier stragglers included.
  std::string Awaited() const ABSL_LOCKS_EXCLUDED(mutex_);

  /// Ends every wait, now and later, with `why`: kCancelled at the planned end of a run, an error when it has failed.
  /// The first counts.
  void Close(absl::Status why) ABSL_LOCKS_EXCLUDED(mutex_);

  /// Up to `most` groups, in the order in which they are due, and no more than the share of one of `workers` in a batch;
  /// empty at the deadline.
  absl::StatusOr<std::vector<LeasedGroup>> Lease(const std::string& worker, int64_t most, SteadyTime deadline,
                                                 int64_t workers = 1) ABSL_LOCKS_EXCLUDED(mutex_);

  /// Those that are lost.
  std::vector<std::string> Renew(const std::string& worker, absl::Span<const std::string> leases)
      ABSL_LOCKS_EXCLUDED(mutex_);

  /// Whether it counts: false when the group is there already or no longer wanted. The work of a lease that was lost
  /// counts like any other, if it is the first. kInvalidArgument names what is wrong with the group (Check); it is then
  /// due again. kNotFound: no such lease was ever given.
  absl::StatusOr<bool> Deliver(const std::string& lease, Group group) ABSL_LOCKS_EXCLUDED(mutex_);

  /// The group is due again. `leaving`: because the worker ends, which says nothing against the group.
  absl::Status GiveBack(const std::string& lease, const std::string& reason, bool leaving = false)
      ABSL_LOCKS_EXCLUDED(mutex_);

  absl::Duration lease_duration() const { return options_.lease; }

 private:
  enum class State { kDue, kLeased, kDelivered };
  struct Item {
    rollout::GroupRequest request;
    uint64_t seed = 0;
    int64_t batch = 0, place = 0;
    int64_t oldest_version = 0;
    State state = State::kDue;
    std::string worker, lease;  // while leased
    SteadyTime expires;
    int64_t attempts = 0;
    Group group;
  };
  struct Batch {
    int64_t size = 0, oldest_version = 0;
    SteadyTime quorum_at = SteadyTime::InfiniteFuture();  // since when there is one
  };
  using Place = std::pair<int64_t, int64_t>;  // batch, place in it

  LeaseTable(const LeaseOptions& options, std::function<SteadyTime()> now) : options_(options), now_(std::move(now)) {}
  void Expire() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  SteadyTime NextExpiry() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Return(Item& item, const std::string& reason) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  Item* Find(const std::string& lease) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void NoteQuorum(int64_t batch) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  SteadyTime CutAt() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  CutBatch TakeFirst() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  std::string AwaitedLocked() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  template <class Done, class Wake>
  bool AwaitOr(SteadyTime deadline, const Done& done, const Wake& wake) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const LeaseOptions options_;
  const std::function<SteadyTime()> now_;
  mutable absl::Mutex mutex_;
  std::map<Place, Item> items_ ABSL_GUARDED_BY(mutex_);  // not yet in a batch that was cut
  std::set<Place> due_ ABSL_GUARDED_BY(mutex_);
  std::map<std::string, Place> leases_ ABSL_GUARDED_BY(mutex_);  // all of the items in items_, lost ones included
  std::set<std::string> ids_ ABSL_GUARDED_BY(mutex_);
  std::map<int64_t, Batch> open_ ABSL_GUARDED_BY(mutex_);
  std::vector<std::string> failed_ ABSL_GUARDED_BY(mutex_);  // since the cut before
  int64_t next_batch_ ABSL_GUARDED_BY(mutex_) = 0, next_lease_ ABSL_GUARDED_BY(mutex_) = 0;
  int64_t lost_leases_ ABSL_GUARDED_BY(mutex_) = 0, returned_leases_ ABSL_GUARDED_BY(mutex_) = 0;
  int64_t changes_ ABSL_GUARDED_BY(mutex_) = 0;
  absl::Status closed_ ABSL_GUARDED_BY(mutex_);
};

/// What a learner relies on: the request's id and task, at least one episode, episodes and turns of that task, one
/// log-prob a response token, each finite and at most 0, version spans that cover the response in order, none older
/// than `oldest_version`. kInvalidArgument names the first that does not hold.
absl::Status CheckGroup(const Group& group, const rollout::GroupRequest& request, int64_t oldest_version);

/// The oldest policy version of a token; `otherwise` where there is none.
int64_t OldestVersion(absl::Span<const Group> groups, int64_t otherwise);

}  // namespace hone::trainer
