#include "verifier/queue/sqlite_queue.h"

#include <algorithm>
#include <deque>
#include <list>
#include <set>
#include <unordered_map>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "base/sqlite.h"
#include "base/status_macros.h"

namespace hone::verifier {
namespace {

// What a job costs beside its payload: its row, its index entries, its place in memory.
constexpr int64_t kJobOverheadBytes = 512;

enum RowState : int64_t { kWaiting = 0, kLeased = 1, kDone = 2, kDead = 3 };

constexpr char kSchema[] = R"sql(
CREATE TABLE IF NOT EXISTS meta(version TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS job(
  id INTEGER PRIMARY KEY AUTOINCREMENT,
  key TEXT NOT NULL UNIQUE,
  digest TEXT NOT NULL,
  kind TEXT NOT NULL,
  priority INTEGER NOT NULL,
  retain INTEGER NOT NULL,
  row_state INTEGER NOT NULL,
  tries INTEGER NOT NULL,
  payload BLOB NOT NULL,
  state BLOB NOT NULL,
  result BLOB NOT NULL,     -- of a done job; the reason of a dead one
  changed_us INTEGER NOT NULL
);)sql";

int64_t Micros(absl::Time time) { return absl::ToUnixMicros(time); }

/// A job that has not ended. The row has the rest.
struct Job {
  int64_t id = 0;
  std::string key;
  std::string digest;
  std::string kind;
  Priority priority = Priority::kNormal;
  bool retain = false;
  int tries = 0;
  int64_t lease = 0;         // 0: waiting
  SteadyTime lease_end = SteadyTime::InfiniteFuture();
  absl::Time since;          // submitted or advanced
  int64_t bytes = 0;
  std::vector<std::pair<int64_t, Queue::OnOutcome>> watchers;
};

/// A result that is kept for its key.
struct Retained {
  int64_t id;
  absl::Time expires;
  int64_t bytes;
};

/// Callbacks to be called once the lock is released.
using Deliveries = std::vector<std::pair<Queue::OnOutcome, Outcome>>;

void Deliver(Deliveries& deliveries) {
  for (auto& [on_outcome, outcome] : deliveries) {
    if (on_outcome) on_outcome(outcome);
  }
}

class SqliteQueue final : public Queue {
 public:
  explicit SqliteQueue(SqliteQueueOptions options) : options_(std::move(options)) {}

  absl::Status Open() ABSL_LOCKS_EXCLUDED(mutex_);

  absl::StatusOr<Ticket> Submit(const Submission& submission, OnOutcome on_outcome) override;
  void Abandon(const Ticket& ticket) override;
  absl::StatusOr<int64_t> Cancel(const std::string& key) override;
  absl::StatusOr<std::optional<LeasedJob>> Lease(absl::Span<const std::string> kinds, absl::Duration duration,
                                                 SteadyTime deadline) override;
  absl::Status Renew(const LeasedJob& leased, absl::Duration duration) override;
  absl::Status Advance(const LeasedJob& leased, const std::string& kind, const std::string& state) override;
  absl::Status Complete(const LeasedJob& leased, const std::string& result) override;
  absl::Status Fail(const LeasedJob& leased, const std::string& reason) override;
  absl::Status Release(const LeasedJob& leased) override;
  void Close() override;
  QueueStats Stats() const override;
  absl::StatusOr<std::vector<DeadLetter>> DeadLetters(int limit) const override;

 private:
  struct Waiter {
    absl::Span<const std::string> kinds;
    bool woken = false;
  };
  // The order of leasing: higher priority first, then older first.
  using Place = std::pair<int, int64_t>;
  static Place PlaceOf(const Job& job) { return {-static_cast<int>(job.priority), job.id}; }

  absl::Status PrepareStatements() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::Status Recover() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::Status CheckVersion() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  absl::StatusOr<Ticket> Join(Job& job, const Submission& submission, OnOutcome on_outcome)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  /// The retained result of a key, if there is one.
  absl::StatusOr<std::optional<Outcome>> FindRetained(const Submission& submission)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::Status MakeRoom(int64_t bytes) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void DropOldestRetained() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void DropExpired() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  void Enqueue(Job& job) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void WakeOne(const std::string& kind) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  Job* NextOf(absl::Span<const std::string> kinds) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::StatusOr<LeasedJob> Take(Job& job, absl::Duration duration) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  /// The job of a lease that still holds.
  absl::StatusOr<Job*> Held(const LeasedJob& leased) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void EndLease(Job& job) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  /// Back to waiting, or dead when the tries are spent.
  absl::Status FailJob(Job& job, const std::string& reason, Deliveries& deliveries)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::Status BuryJob(Job& job, const std::string& reason, Deliveries& deliveries)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void ExpireLeases(Deliveries& deliveries) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  /// Forgets a job in memory and hands its watchers their outcome.
  void End(Job& job, const Outcome& outcome, Deliveries& deliveries) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::Status WriteRowState(const Job& job, RowState row_state) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::Status DeleteRow(int64_t id) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const SqliteQueueOptions options_;
  mutable absl::Mutex mutex_;
  std::unique_ptr<Database> database_ ABSL_GUARDED_BY(mutex_);
  std::optional<Statement> insert_, find_key_, read_, set_row_, advance_, finish_, delete_ ABSL_GUARDED_BY(mutex_);
  std::unordered_map<int64_t, std::unique_ptr<Job>> jobs_ ABSL_GUARDED_BY(mutex_);
  std::unordered_map<std::string, Job*> by_key_ ABSL_GUARDED_BY(mutex_);
  std::map<std::string, std::set<Place>> waiting_ ABSL_GUARDED_BY(mutex_);
  std::set<std::pair<SteadyTime, int64_t>> leases_ ABSL_GUARDED_BY(mutex_);
  std::deque<Retained> retained_ ABSL_GUARDED_BY(mutex_);
  std::deque<int64_t> dead_ ABSL_GUARDED_BY(mutex_);  // oldest first
  std::list<Waiter*> waiters_ ABSL_GUARDED_BY(mutex_);
  int64_t bytes_ ABSL_GUARDED_BY(mutex_) = 0;
  int64_t last_watcher_ ABSL_GUARDED_BY(mutex_) = 0;
  int64_t last_lease_ ABSL_GUARDED_BY(mutex_) = 0;
  bool closed_ ABSL_GUARDED_BY(mutex_) = false;
};

// ------------------------------------------------------------------------------------------------------------- start

absl::Status SqliteQueue::Open() {
  absl::MutexLock lock(&mutex_);
  HONE_ASSIGN_OR_RETURN(database_, Database::Open(options_.path));
  HONE_RETURN_IF_ERROR(database_->Execute(kSchema));
  HONE_RETURN_IF_ERROR(CheckVersion());
  HONE_RETURN_IF_ERROR(PrepareStatements());
  return Recover();
}

absl::Status SqliteQueue::CheckVersion() {
  HONE_ASSIGN_OR_RETURN(Statement read, database_->Prepare("SELECT version FROM meta"));
  HONE_ASSIGN_OR_RETURN(const bool written, read.Step());
  if (!written) {
    HONE_ASSIGN_OR_RETURN(Statement write, database_->Prepare("INSERT INTO meta(version) VALUES(?)"));
    return write.Bind(1, options_.version).Run();
  }
  const std::string version = read.Bytes(0);
  read.Reset();
  if (version == options_.version) return absl::OkStatus();
  return absl::FailedPreconditionError(absl::StrCat(options_.path, ": written by version ", version, ", this is ",
                                                    options_.version,
                                                    "; let that version finish the queue, or remove the file"));
}

absl::Status SqliteQueue::PrepareStatements() {
  const auto prepare = [this](std::optional<Statement>& to, const char* sql) -> absl::Status {
    HONE_ASSIGN_OR_RETURN(Statement statement, database_->Prepare(sql));
    to.emplace(std::move(statement));
    return absl::OkStatus();
  };
  HONE_RETURN_IF_ERROR(prepare(insert_, R"sql(
      INSERT INTO job(key, digest, kind, priority, retain, row_state, tries, payload, state, result, changed_us)
      VALUES(?, ?, ?, ?, ?, 0, 0, ?, x'', x'', ?) RETURNING id)sql"));
  HONE_RETURN_IF_ERROR(
      prepare(find_key_, "SELECT id, row_state, digest, result, changed_us FROM job WHERE key = ?"));
  HONE_RETURN_IF_ERROR(prepare(read_, "SELECT payload, state FROM job WHERE id = ?"));
  HONE_RETURN_IF_ERROR(
      prepare(set_row_, "UPDATE job SET row_state = ?, tries = ?, priority = ?, changed_us = ? WHERE id = ?"));
  HONE_RETURN_IF_ERROR(prepare(
      advance_, "UPDATE job SET row_state = 0, tries = 0, kind = ?, state = ?, changed_us = ? WHERE id = ?"));
  HONE_RETURN_IF_ERROR(prepare(
      finish_, "UPDATE job SET row_state = ?, payload = x'', state = x'', result = ?, changed_us = ? WHERE id = ?"));
  return prepare(delete_, "DELETE FROM job WHERE id = ?");
}

absl::Status SqliteQueue::Recover() {
  HONE_ASSIGN_OR_RETURN(Statement rows, database_->Prepare(R"sql(
      SELECT id, key, digest, kind, priority, retain, row_state, tries, changed_us,
             length(payload) + length(state) + length(result) FROM job ORDER BY changed_us, id)sql"));
  std::vector<std::unique_ptr<Job>> live;
  while (true) {
    HONE_ASSIGN_OR_RETURN(const bool more, rows.Step());
    if (!more) break;
    const int64_t id = rows.Int(0);
    const absl::Time changed = absl::FromUnixMicros(rows.Int(8));
    const int64_t bytes = rows.Int(9) + kJobOverheadBytes;
    bytes_ += bytes;
    if (rows.Int(6) == kDone) {
      retained_.push_back({id, changed + options_.retention, bytes});
    } else if (rows.Int(6) == kDead) {
      dead_.push_back(id);
    } else {
      auto job = std::make_unique<Job>();
      job->id = id;
      job->key = rows.Bytes(1);
      job->digest = rows.Bytes(2);
      job->kind = rows.Bytes(3);
      job->priority = static_cast<Priority>(rows.Int(4));
      job->retain = rows.Int(5) != 0;
      job->tries = static_cast<int>(rows.Int(7));
      job->since = changed;
      job->bytes = bytes;
      live.push_back(std::move(job));
    }
  }
  for (std::unique_ptr<Job>& job : live) {
    Job& kept = *job;
    by_key_[kept.key] = &kept;
    jobs_[kept.id] = std::move(job);
    Deliveries nobody;
    if (kept.tries >= options_.max_tries) {
      HONE_RETURN_IF_ERROR(BuryJob(kept, "the verifier died while it worked on this job", nobody));
    } else {
      HONE_RETURN_IF_ERROR(WriteRowState(kept, kWaiting));
      Enqueue(kept);
    }
  }
  return absl::OkStatus();
}

// ------------------------------------------------------------------------------------------------------ submission

absl::StatusOr<Ticket> SqliteQueue::Submit(const Submission& submission, OnOutcome on_outcome) {
  HONE_CHECK(!submission.key.empty() && !submission.kind.empty());
  std::optional<Outcome> known;
  {
    absl::MutexLock lock(&mutex_);
    DropExpired();
    const auto live = by_key_.find(submission.key);
    if (live != by_key_.end()) return Join(*live->second, submission, std::move(on_outcome));
    HONE_ASSIGN_OR_RETURN(known, FindRetained(submission));
    if (!known) {
      auto job = std::make_unique<Job>();
      job->bytes = static_cast<int64_t>(submission.payload.size()) + kJobOverheadBytes;
      HONE_RETURN_IF_ERROR(MakeRoom(job->bytes));
      job->since = options_.now();
      insert_->Bind(1, submission.key).Bind(2, submission.digest).Bind(3, submission.kind);
      insert_->Bind(4, static_cast<int64_t>(submission.priority)).Bind(5, int64_t{submission.retain});
      insert_->BindBlob(6, submission.payload).Bind(7, Micros(job->since));
      HONE_ASSIGN_OR_RETURN(const bool inserted, insert_->Step());
      HONE_CHECK(inserted);
      job->id = insert_->Int(0);
      HONE_RETURN_IF_ERROR(insert_->Run());  // the row is stored when the statement ends
      job->key = submission.key;
      job->digest = submission.digest;
      job->kind = submission.kind;
      job->priority = submission.priority;
      job->retain = submission.retain;
      const Ticket ticket{job->id, ++last_watcher_};
      job->watchers.emplace_back(ticket.watcher, std::move(on_outcome));
      bytes_ += job->bytes;
      Job& kept = *job;
      by_key_[kept.key] = &kept;
      jobs_[kept.id] = std::move(job);
      Enqueue(kept);
      return ticket;
    }
  }
  if (on_outcome) on_outcome(*known);
  return Ticket{};
}

absl::StatusOr<Ticket> SqliteQueue::Join(Job& job, const Submission& submission, OnOutcome on_outcome) {
  if (job.digest != submission.digest) {
    return absl::InvalidArgumentError(
        absl::StrCat("key '", submission.key, "' already names another task, candidate or protocol"));
  }
  if (submission.priority > job.priority) {
    if (job.lease == 0) waiting_[job.kind].erase(PlaceOf(job));
    job.priority = submission.priority;
    if (job.lease == 0) waiting_[job.kind].insert(PlaceOf(job));
    HONE_RETURN_IF_ERROR(WriteRowState(job, job.lease == 0 ? kWaiting : kLeased));
  }
  const Ticket ticket{job.id, ++last_watcher_};
  job.watchers.emplace_back(ticket.watcher, std::move(on_outcome));
  return ticket;
}

absl::StatusOr<std::optional<Outcome>> SqliteQueue::FindRetained(const Submission& submission) {
  HONE_ASSIGN_OR_RETURN(const bool found, find_key_->Bind(1, submission.key).Step());
  if (!found) return std::nullopt;
  const int64_t id = find_key_->Int(0);
  const int64_t row_state = find_key_->Int(1);
  const std::string digest = find_key_->Bytes(2);
  Outcome outcome;
  if (row_state == kDone) outcome.result = find_key_->Bytes(3);
  find_key_->Reset();
  if (row_state != kDone) {  // a dead letter makes way for the new attempt
    std::erase(dead_, id);
    bytes_ -= kJobOverheadBytes;
    HONE_RETURN_IF_ERROR(DeleteRow(id));
    return std::nullopt;
  }
  if (digest != submission.digest) {
    return absl::InvalidArgumentError(
        absl::StrCat("key '", submission.key, "' already named another task, candidate or protocol"));
  }
  return outcome;
}

absl::Status SqliteQueue::MakeRoom(int64_t bytes) {
  while (bytes_ + bytes > options_.limit_bytes && !retained_.empty()) DropOldestRetained();
  if (bytes_ + bytes <= options_.limit_bytes) return absl::OkStatus();
  return absl::ResourceExhaustedError(absl::StrCat("the queue holds ", bytes_, " bytes in ", jobs_.size(),
                                                   " jobs; ", bytes, " more would pass its limit of ",
                                                   options_.limit_bytes));
}

void SqliteQueue::DropOldestRetained() {
  const Retained oldest = retained_.front();
  retained_.pop_front();
  bytes_ -= oldest.bytes;
  DeleteRow(oldest.id).IgnoreError();  // a row left behind is dropped at the next start
}

void SqliteQueue::DropExpired() {
  const absl::Time now = options_.now();
  while (!retained_.empty() && retained_.front().expires <= now) DropOldestRetained();
}

void SqliteQueue::Abandon(const Ticket& ticket) {
  absl::MutexLock lock(&mutex_);
  const auto found = jobs_.find(ticket.job);
  if (found == jobs_.end()) return;
  Job& job = *found->second;
  const size_t erased = std::erase_if(job.watchers, [&](const auto& watcher) { return watcher.first == ticket.watcher; });
  if (erased == 0 || !job.watchers.empty() || job.lease != 0) return;
  DeleteRow(job.id).IgnoreError();  // at worst it runs once for nobody after a restart
  Deliveries nobody;
  End(job, {}, nobody);
}

absl::StatusOr<int64_t> SqliteQueue::Cancel(const std::string& key) {
  Deliveries deliveries;
  absl::Status written;
  {
    absl::MutexLock lock(&mutex_);
    const auto found = by_key_.find(key);
    if (found == by_key_.end()) return 0;
    written = DeleteRow(found->second->id);
    End(*found->second, {Outcome::Ending::kCancelled, "", "cancelled on request", {}}, deliveries);
  }
  Deliver(deliveries);
  HONE_RETURN_IF_ERROR(written);
  return static_cast<int64_t>(deliveries.size());
}

// ---------------------------------------------------------------------------------------------------------- leasing

void SqliteQueue::Enqueue(Job& job) {
  job.lease = 0;
  waiting_[job.kind].insert(PlaceOf(job));
  WakeOne(job.kind);
}

void SqliteQueue::WakeOne(const std::string& kind) {
  for (Waiter* waiter : waiters_) {
    if (std::find(waiter->kinds.begin(), waiter->kinds.end(), kind) == waiter->kinds.end()) continue;
    waiters_.remove(waiter);  // so that the next job wakes the next one
    waiter->woken = true;
    return;
  }
}

Job* SqliteQueue::NextOf(absl::Span<const std::string> kinds) {
  for (const std::string& kind : kinds) {
    const auto places = waiting_.find(kind);
    if (places == waiting_.end() || places->second.empty()) continue;
    return jobs_.at(places->second.begin()->second).get();
  }
  return nullptr;
}

absl::StatusOr<std::optional<LeasedJob>> SqliteQueue::Lease(absl::Span<const std::string> kinds,
                                                            absl::Duration duration, SteadyTime deadline) {
  Deliveries deliveries;
  absl::StatusOr<std::optional<LeasedJob>> leased = std::optional<LeasedJob>();
  {
    absl::MutexLock lock(&mutex_);
    while (true) {
      ExpireLeases(deliveries);
      if (Job* job = NextOf(kinds)) {
        leased = Take(*job, duration);
        // A row that cannot be read would come first again and again.
        if (absl::IsDataLoss(leased.status())) {
          End(*job, {Outcome::Ending::kDead, "", std::string(leased.status().message()), {}}, deliveries);
        }
        break;
      }
      if (closed_ || !deliveries.empty()) break;
      Waiter waiter{kinds};
      waiters_.push_back(&waiter);
      const SteadyTime first_expiry = leases_.empty() ? SteadyTime::InfiniteFuture() : leases_.begin()->first;
      const bool woken = AwaitUntil(mutex_, absl::Condition(&waiter.woken), std::min(deadline, first_expiry));
      waiters_.remove(&waiter);
      if (!woken && SteadyTime::Now() >= deadline) break;
    }
  }
  Deliver(deliveries);
  return leased;
}

absl::StatusOr<LeasedJob> SqliteQueue::Take(Job& job, absl::Duration duration) {
  LeasedJob leased;
  HONE_ASSIGN_OR_RETURN(const bool found, read_->Bind(1, job.id).Step());
  if (!found) return absl::DataLossError(absl::StrCat(options_.path, ": the row of job ", job.id, " is gone"));
  leased.payload = read_->Bytes(0);
  leased.state = read_->Bytes(1);
  read_->Reset();
  ++job.tries;
  const absl::Status written = WriteRowState(job, kLeased);
  if (!written.ok()) {
    --job.tries;
    return written;
  }
  waiting_[job.kind].erase(PlaceOf(job));
  job.lease = ++last_lease_;
  job.lease_end = options_.steady_now() + duration;
  leases_.emplace(job.lease_end, job.id);
  leased.id = job.id;
  leased.lease = job.lease;
  leased.key = job.key;
  leased.kind = job.kind;
  leased.digest = job.digest;
  leased.tries = job.tries;
  leased.waited = std::max(options_.now() - job.since, absl::ZeroDuration());  // the clock may have been set back
  return leased;
}

absl::StatusOr<Job*> SqliteQueue::Held(const LeasedJob& leased) {
  const auto found = jobs_.find(leased.id);
  if (found == jobs_.end() || found->second->lease != leased.lease) {
    return absl::NotFoundError(absl::StrCat("the lease on job ", leased.id, " is lost"));
  }
  return found->second.get();
}

void SqliteQueue::EndLease(Job& job) {
  leases_.erase({job.lease_end, job.id});
  job.lease = 0;
  job.lease_end = SteadyTime::InfiniteFuture();
}

absl::Status SqliteQueue::Renew(const LeasedJob& leased, absl::Duration duration) {
  absl::MutexLock lock(&mutex_);
  HONE_ASSIGN_OR_RETURN(Job * job, Held(leased));
  leases_.erase({job->lease_end, job->id});
  job->lease_end = options_.steady_now() + duration;
  leases_.emplace(job->lease_end, job->id);
  return absl::OkStatus();
}

absl::Status SqliteQueue::Advance(const LeasedJob& leased, const std::string& kind, const std::string& state) {
  absl::MutexLock lock(&mutex_);
  HONE_ASSIGN_OR_RETURN(Job * job, Held(leased));
  const absl::Time now = options_.now();
  HONE_RETURN_IF_ERROR(
      advance_->Bind(1, kind).BindBlob(2, state).Bind(3, Micros(now)).Bind(4, job->id).Run());
  EndLease(*job);
  const int64_t grown = static_cast<int64_t>(state.size()) - static_cast<int64_t>(leased.state.size());
  job->bytes += grown;
  bytes_ += grown;
  job->kind = kind;
  job->tries = 0;
  job->since = now;
  Enqueue(*job);
  return absl::OkStatus();
}

absl::Status SqliteQueue::Complete(const LeasedJob& leased, const std::string& result) {
  Deliveries deliveries;
  absl::Status written;
  {
    absl::MutexLock lock(&mutex_);
    HONE_ASSIGN_OR_RETURN(Job * job, Held(leased));
    const int64_t id = job->id;
    const bool retain = job->retain;
    // What has been measured is delivered even when the disk refuses the record.
    End(*job, {Outcome::Ending::kDone, result, "", {}}, deliveries);
    if (retain) {
      const absl::Time now = options_.now();
      written = finish_->Bind(1, kDone).BindBlob(2, result).Bind(3, Micros(now)).Bind(4, id).Run();
      const int64_t bytes = static_cast<int64_t>(result.size()) + kJobOverheadBytes;
      retained_.push_back({id, now + options_.retention, bytes});
      bytes_ += bytes;
      DropExpired();
    } else {
      written = DeleteRow(id);
    }
  }
  Deliver(deliveries);
  return written;
}

absl::Status SqliteQueue::Fail(const LeasedJob& leased, const std::string& reason) {
  Deliveries deliveries;
  absl::Status written;
  {
    absl::MutexLock lock(&mutex_);
    HONE_ASSIGN_OR_RETURN(Job * job, Held(leased));
    EndLease(*job);
    written = FailJob(*job, reason, deliveries);
  }
  Deliver(deliveries);
  return written;
}

absl::Status SqliteQueue::Release(const LeasedJob& leased) {
  absl::MutexLock lock(&mutex_);
  HONE_ASSIGN_OR_RETURN(Job * job, Held(leased));
  EndLease(*job);
  --job->tries;
  Enqueue(*job);
  return WriteRowState(*job, kWaiting);
}

absl::Status SqliteQueue::FailJob(Job& job, const std::string& reason, Deliveries& deliveries) {
  if (job.tries >= options_.max_tries) return BuryJob(job, reason, deliveries);
  Enqueue(job);
  return WriteRowState(job, kWaiting);
}

absl::Status SqliteQueue::BuryJob(Job& job, const std::string& reason, Deliveries& deliveries) {
  const int64_t id = job.id;
  const std::string epitaph = absl::StrCat(reason, " (", job.tries, " tries)");
  End(job, {Outcome::Ending::kDead, "", epitaph, {}}, deliveries);
  dead_.push_back(id);
  bytes_ += kJobOverheadBytes;
  while (static_cast<int>(dead_.size()) > options_.max_dead_letters) {
    DeleteRow(dead_.front()).IgnoreError();
    dead_.pop_front();
    bytes_ -= kJobOverheadBytes;
  }
  return finish_->Bind(1, kDead).BindBlob(2, epitaph).Bind(3, Micros(options_.now())).Bind(4, id).Run();
}

void SqliteQueue::ExpireLeases(Deliveries& deliveries) {
  const SteadyTime now = options_.steady_now();
  while (!leases_.empty() && leases_.begin()->first <= now) {
    Job& job = *jobs_.at(leases_.begin()->second);
    EndLease(job);
    FailJob(job, "the worker did not report before its lease ended", deliveries).IgnoreError();
  }
}

void SqliteQueue::End(Job& job, const Outcome& outcome, Deliveries& deliveries) {
  if (job.lease != 0) EndLease(job);
  waiting_[job.kind].erase(PlaceOf(job));
  for (auto& [watcher, on_outcome] : job.watchers) deliveries.emplace_back(std::move(on_outcome), outcome);
  bytes_ -= job.bytes;
  by_key_.erase(job.key);
  jobs_.erase(job.id);
}

absl::Status SqliteQueue::WriteRowState(const Job& job, RowState row_state) {
  set_row_->Bind(1, row_state).Bind(2, int64_t{job.tries}).Bind(3, static_cast<int64_t>(job.priority));
  return set_row_->Bind(4, Micros(job.since)).Bind(5, job.id).Run();
}

absl::Status SqliteQueue::DeleteRow(int64_t id) { return delete_->Bind(1, id).Run(); }

// ------------------------------------------------------------------------------------------------------- the rest

void SqliteQueue::Close() {
  absl::MutexLock lock(&mutex_);
  closed_ = true;
  for (Waiter* waiter : waiters_) waiter->woken = true;
}

QueueStats SqliteQueue::Stats() const {
  absl::MutexLock lock(&mutex_);
  QueueStats stats;
  for (const auto& [kind, places] : waiting_) stats.kinds[kind].waiting = static_cast<int64_t>(places.size());
  for (const auto& [end, id] : leases_) ++stats.kinds[jobs_.at(id)->kind].leased;
  stats.bytes = bytes_;
  stats.limit_bytes = options_.limit_bytes;
  stats.dead = static_cast<int64_t>(dead_.size());
  return stats;
}

absl::StatusOr<std::vector<DeadLetter>> SqliteQueue::DeadLetters(int limit) const {
  absl::MutexLock lock(&mutex_);
  HONE_ASSIGN_OR_RETURN(
      Statement rows,
      database_->Prepare("SELECT key, kind, result FROM job WHERE row_state = 3 ORDER BY changed_us DESC, id DESC LIMIT ?"));
  rows.Bind(1, int64_t{limit});
  std::vector<DeadLetter> letters;
  while (true) {
    HONE_ASSIGN_OR_RETURN(const bool more, rows.Step());
    if (!more) return letters;
    letters.push_back({rows.Bytes(0), rows.Bytes(1), rows.Bytes(2)});
  }
}

}  // namespace

absl::StatusOr<std::unique_ptr<Queue>> OpenSqliteQueue(SqliteQueueOptions options) {
  auto queue = std::make_unique<SqliteQueue>(std::move(options));
  HONE_RETURN_IF_ERROR(queue->Open());
  return queue;
}

}  // namespace hone::verifier
