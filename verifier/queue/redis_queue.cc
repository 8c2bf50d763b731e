#include "verifier/queue/redis_queue.h"

#include <unistd.h>

#include <algorithm>
#include <deque>
#include <list>
#include <random>
#include <thread>
#include <unordered_map>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "absl/synchronization/mutex.h"
#include "base/status_macros.h"
#include "base/steady_time.h"
#include "verifier/queue/redis_script.h"

namespace hone::verifier {
namespace {

constexpr char kPrefix[] = "{hone}:";
constexpr int64_t kOverheadBytes = 512;                       // as the script counts
constexpr absl::Duration kReconnect = absl::Milliseconds(200);
constexpr absl::Duration kPoll = absl::Seconds(2);            // a wake-up that was lost is made up for
constexpr absl::Duration kPatienceOnceClosed = absl::Seconds(10);
constexpr size_t kBatch = 64;
constexpr int64_t kBatchBytes = 8 << 20;

int64_t RandomId() {
  thread_local std::mt19937_64 random{std::random_device{}()};
  return static_cast<int64_t>(random() >> 2) | 1;  // never 0
}

std::string NodeName() {
  char host[256] = "host";
  gethostname(host, sizeof(host) - 1);
  return absl::StrCat(host, "-", getpid(), "-", absl::Hex(RandomId() & 0xffffff, absl::kZeroPad6));
}

int64_t ToInt(absl::string_view text) {
  int64_t value = 0;
  return absl::SimpleAtoi(text, &value) ? value : 0;
}

/// What this process submitted and has no outcome of.
struct Open {
  Submission submission;
  std::vector<std::pair<int64_t, Queue::OnOutcome>> watchers;
  bool queued = true;      // stands in the outbox
  std::string sent_to;     // the run of Redis that has it
};

/// What the sender is to tell Redis.
struct Errand {
  int64_t token = 0;
  std::string abandoned_key;  // empty: submit the token's job
};

struct Held {
  std::string key;
  SteadyTime end;
};

using Arguments = std::vector<absl::string_view>;

class RedisQueue final : public Queue {
 public:
  RedisQueue(RedisQueueOptions options, Logger log) : options_(std::move(options)), log_(log.For("queue")) {}
  ~RedisQueue() override;

  absl::Status Start();

  absl::StatusOr<Ticket> Submit(const Submission& submission, OnOutcome on_outcome) override;
  void Abandon(const Ticket& ticket) override;
  absl::StatusOr<int64_t> Cancel(const std::string& key) override;
  absl::StatusOr<std::optional<LeasedJob>> Lease(absl::Span<const std::string> kinds, absl::Duration duration,
                                                 SteadyTime deadline) override;
  absl::Status Renew(const LeasedJob& job, absl::Duration duration) override;
  absl::Status Advance(const LeasedJob& job, const std::string& kind, const std::string& state) override;
  absl::Status Complete(const LeasedJob& job, const std::string& result) override;
  absl::Status Fail(const LeasedJob& job, const std::string& reason) override;
  absl::Status Release(const LeasedJob& job) override;
  void Close() override;
  QueueStats Stats() const override;
  absl::StatusOr<std::vector<DeadLetter>> DeadLetters(int limit) const override;

 private:
  struct Waiter {
    absl::Span<const std::string> kinds;
    bool woken = false;
  };
  struct Link {  // a connection that knows the script
    std::unique_ptr<RedisConnection> connection;
    std::string sha;
    std::string run;  // of Redis: another one after each start
    absl::StatusOr<RedisReply> Call(const Arguments& arguments);
  };

  // ---- connections
  absl::StatusOr<Link> Connect() const;   // tells the log what comes of it
  absl::StatusOr<Link> TryConnect() const;
  /// One script call over a pooled connection; a stale one is replaced.
  absl::StatusOr<RedisReply> Call(const Arguments& arguments) const;
  void Note(const absl::Status& status) const;
  bool Stopping() const;
  void Pause(absl::Duration duration) const;

  // ---- what runs all the time
  void SendLoop();
  void ListenLoop();
  void WakeLoop();
  void HeartLoop();
  std::vector<Errand> TakeErrands() ABSL_LOCKS_EXCLUDED(mutex_);
  absl::Status SendErrands(Link& link, std::vector<Errand>& errands);
  void Settle(int64_t token, const absl::StatusOr<RedisReply>& reply, const std::string& run);
  absl::Status Listen(Link& link, std::string& last, absl::Duration wait);
  void SubmitWhatIsLost(const std::string& run);
  void Deliver(int64_t token, const Outcome& outcome) ABSL_LOCKS_EXCLUDED(mutex_);
  absl::Status Beat(Link& link, bool reap);

  // ---- leasing
  absl::StatusOr<std::optional<LeasedJob>> TryLease(absl::Span<const std::string> kinds, absl::Duration duration);
  void WakeOne(absl::string_view kind) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::Status Report(const LeasedJob& job, const Arguments& arguments);

  const RedisQueueOptions options_;
  const Logger log_;

  mutable absl::Mutex mutex_;
  std::unordered_map<int64_t, Open> open_ ABSL_GUARDED_BY(mutex_);            // by token
  std::unordered_map<std::string, int64_t> by_key_ ABSL_GUARDED_BY(mutex_);   // to token
  std::deque<Errand> outbox_ ABSL_GUARDED_BY(mutex_);
  std::unordered_map<int64_t, Held> held_ ABSL_GUARDED_BY(mutex_);            // by lease
  std::list<Waiter*> waiters_ ABSL_GUARDED_BY(mutex_);
  int64_t open_bytes_ ABSL_GUARDED_BY(mutex_) = 0;
  int64_t last_watcher_ ABSL_GUARDED_BY(mutex_) = 0;
  bool closed_ ABSL_GUARDED_BY(mutex_) = false;
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  mutable std::vector<Link> pool_ ABSL_GUARDED_BY(mutex_);
  RedisConnection* listening_ ABSL_GUARDED_BY(mutex_) = nullptr;  // for the destructor to interrupt
  RedisConnection* subscribed_ ABSL_GUARDED_BY(mutex_) = nullptr;
  mutable std::string trouble_ ABSL_GUARDED_BY(mutex_);
  mutable SteadyTime trouble_since_ ABSL_GUARDED_BY(mutex_);
  mutable SteadyTime trouble_told_ ABSL_GUARDED_BY(mutex_) = SteadyTime::InfinitePast();
  mutable QueueStats last_stats_ ABSL_GUARDED_BY(mutex_);
  std::vector<std::thread> threads_;
};

// ------------------------------------------------------------------------------------------------------ connections

absl::StatusOr<RedisReply> RedisQueue::Link::Call(const Arguments& arguments) {
  Arguments command = {"EVALSHA", sha, "1", kPrefix};
  command.insert(command.end(), arguments.begin(), arguments.end());
  return connection->Run(command);
}

absl::StatusOr<RedisQueue::Link> RedisQueue::Connect() const {
  absl::StatusOr<Link> link = TryConnect();
  Note(link.status());
  return link;
}

absl::StatusOr<RedisQueue::Link> RedisQueue::TryConnect() const {
  Link link;
  HONE_ASSIGN_OR_RETURN(link.connection, RedisConnection::Open(options_.address));
  HONE_ASSIGN_OR_RETURN(const RedisReply sha, link.connection->Run({"SCRIPT", "LOAD", kRedisQueueScript}));
  link.sha = sha.text;
  HONE_ASSIGN_OR_RETURN(const RedisReply info, link.connection->Run({"INFO", "server"}));
  const size_t run = info.text.find("run_id:");
  if (run != std::string::npos) link.run = info.text.substr(run, info.text.find('\r', run) - run);
  HONE_ASSIGN_OR_RETURN(const RedisReply hello, link.Call({"hello", options_.version}));
  if (hello.TextAt(1) != options_.version) {
    return absl::FailedPreconditionError(absl::StrCat(options_.address.Name(), ": holds jobs of version ", hello.TextAt(1),
                                                      ", this is ", options_.version,
                                                      "; let that version finish them, or use another database"));
  }
  return link;
}

absl::StatusOr<RedisReply> RedisQueue::Call(const Arguments& arguments) const {
  for (int attempt = 1;; ++attempt) {
    Link link;
    {
      absl::MutexLock lock(&mutex_);
      if (!pool_.empty() && attempt == 1) {
        link = std::move(pool_.back());
        pool_.pop_back();
      } else {
        pool_.clear();  // as stale as the one that failed
      }
    }
    const bool pooled = link.connection != nullptr;
    absl::Status status;
    if (!pooled) {
      absl::StatusOr<Link> fresh = Connect();
      status = fresh.status();
      if (fresh.ok()) link = *std::move(fresh);
    }
    absl::StatusOr<RedisReply> reply = status.ok() ? link.Call(arguments) : absl::StatusOr<RedisReply>(status);
    if (absl::IsUnavailable(reply.status()) && pooled) continue;
    if (absl::IsInternal(reply.status())) log_.Error("queue", {{"error", reply.status().message()}});
    if (reply.ok()) {
      absl::MutexLock lock(&mutex_);
      pool_.push_back(std::move(link));
    }
    return reply;
  }
}

/// Tells the log when Redis goes away, now and then while it is away, and when it is back.
void RedisQueue::Note(const absl::Status& status) const {
  absl::MutexLock lock(&mutex_);
  const SteadyTime now = SteadyTime::Now();
  if (status.ok()) {
    if (trouble_.empty()) return;
    log_.Info("the queue answers again", {{"queue", options_.address.Name()},
                                          {"away_s", absl::ToDoubleSeconds(now - trouble_since_)},
                                          {"waiting", open_.size()}});
    trouble_.clear();
    trouble_told_ = SteadyTime::InfinitePast();
    return;
  }
  if (stopping_) return;
  if (trouble_.empty()) trouble_since_ = now;
  trouble_ = std::string(status.message());
  if (now - trouble_told_ < absl::Seconds(10)) return;
  trouble_told_ = now;
  log_.Warning("the queue does not answer; requests wait for it",
               {{"error", trouble_}, {"away_s", absl::ToDoubleSeconds(now - trouble_since_)}, {"waiting", open_.size()}});
}

bool RedisQueue::Stopping() const {
  absl::MutexLock lock(&mutex_);
  return stopping_;
}

void RedisQueue::Pause(absl::Duration duration) const {
  absl::MutexLock lock(&mutex_);
  AwaitFor(mutex_, absl::Condition(&stopping_), duration);
}

absl::Status RedisQueue::Start() {
  const absl::StatusOr<Link> first = Connect();
  if (absl::IsFailedPrecondition(first.status())) return first.status();
  threads_.emplace_back([this] { SendLoop(); });
  threads_.emplace_back([this] { ListenLoop(); });
  threads_.emplace_back([this] { WakeLoop(); });
  threads_.emplace_back([this] { HeartLoop(); });
  return absl::OkStatus();
}

RedisQueue::~RedisQueue() {
  Close();
  {
    absl::MutexLock lock(&mutex_);
    stopping_ = true;
    if (listening_ != nullptr) listening_->Shutdown();
    if (subscribed_ != nullptr) subscribed_->Shutdown();
  }
  for (std::thread& thread : threads_) thread.join();
}

// ------------------------------------------------------------------------------------------------------- submission

absl::StatusOr<Ticket> RedisQueue::Submit(const Submission& submission, OnOutcome on_outcome) {
  HONE_CHECK(!submission.key.empty() && !submission.kind.empty());
  absl::MutexLock lock(&mutex_);
  const int64_t watcher = ++last_watcher_;
  if (const auto found = by_key_.find(submission.key); found != by_key_.end()) {
    Open& open = open_.at(found->second);
    if (open.submission.digest != submission.digest) {
      return absl::InvalidArgumentError(
          absl::StrCat("key '", submission.key, "' already names another task, candidate or protocol"));
    }
    open.watchers.emplace_back(watcher, std::move(on_outcome));
    if (submission.priority > open.submission.priority) {
      open.submission.priority = submission.priority;
      if (!std::exchange(open.queued, true)) outbox_.push_back({found->second, ""});
    }
    return Ticket{found->second, watcher};
  }
  const int64_t bytes = static_cast<int64_t>(submission.payload.size()) + kOverheadBytes;
  if (open_bytes_ + bytes > options_.limit_bytes) {
    return absl::ResourceExhaustedError(absl::StrCat(
        "this process waits for ", open_bytes_, " bytes in ", open_.size(), " jobs; ", bytes, " more would pass its limit of ",
        options_.limit_bytes, trouble_.empty() ? "" : absl::StrCat("; the queue does not answer: ", trouble_)));
  }
  const int64_t token = RandomId();
  Open& open = open_[token];
  open.submission = submission;
  open.watchers.emplace_back(watcher, std::move(on_outcome));
  by_key_[submission.key] = token;
  open_bytes_ += bytes;
  outbox_.push_back({token, ""});
  return Ticket{token, watcher};
}

void RedisQueue::Abandon(const Ticket& ticket) {
  absl::MutexLock lock(&mutex_);
  const auto found = open_.find(ticket.job);
  if (found == open_.end()) return;
  Open& open = found->second;
  const size_t erased = std::erase_if(open.watchers, [&](const auto& watcher) { return watcher.first == ticket.watcher; });
  if (erased == 0 || !open.watchers.empty()) return;
  outbox_.push_back({ticket.job, open.submission.key});
  open_bytes_ -= static_cast<int64_t>(open.submission.payload.size()) + kOverheadBytes;
  by_key_.erase(open.submission.key);
  open_.erase(found);
}

absl::StatusOr<int64_t> RedisQueue::Cancel(const std::string& key) {
  constexpr char kReason[] = "cancelled on request";
  int64_t here = 0;
  int64_t token = 0;
  {
    absl::MutexLock lock(&mutex_);
    if (const auto found = by_key_.find(key); found != by_key_.end()) {
      token = found->second;
      here = static_cast<int64_t>(open_.at(token).watchers.size());
    }
  }
  HONE_ASSIGN_OR_RETURN(const RedisReply reply, Call({"cancel", key, kReason}));
  if (token != 0) Deliver(token, {Outcome::Ending::kCancelled, "", kReason, {}});
  const int64_t nodes = reply.list.size() > 1 ? reply.list[1].integer : 0;
  return here + std::max<int64_t>(0, nodes - (here > 0 ? 1 : 0));
}

void RedisQueue::Deliver(int64_t token, const Outcome& outcome) {
  Open open;
  {
    absl::MutexLock lock(&mutex_);
    const auto found = open_.find(token);
    if (found == open_.end()) return;
    open = std::move(found->second);
    open_.erase(found);
    by_key_.erase(open.submission.key);
    open_bytes_ -= static_cast<int64_t>(open.submission.payload.size()) + kOverheadBytes;
  }
  for (auto& [watcher, on_outcome] : open.watchers) {
    if (on_outcome) on_outcome(outcome);
  }
}

// ----------------------------------------------------------------------------------------------------------- sender

std::vector<Errand> RedisQueue::TakeErrands() {
  std::vector<Errand> errands;
  absl::MutexLock lock(&mutex_);
  const auto something = [](RedisQueue* queue) ABSL_NO_THREAD_SAFETY_ANALYSIS {
    return queue->stopping_ || !queue->outbox_.empty();
  };
  mutex_.Await(absl::Condition(+something, this));
  for (int64_t bytes = 0; !outbox_.empty() && errands.size() < kBatch && bytes < kBatchBytes;) {
    Errand errand = std::move(outbox_.front());
    outbox_.pop_front();
    if (errand.abandoned_key.empty()) {
      const auto open = open_.find(errand.token);
      if (open == open_.end()) continue;  // abandoned since
      open->second.queued = false;
      bytes += static_cast<int64_t>(open->second.submission.payload.size());
    }
    errands.push_back(std::move(errand));
  }
  return errands;
}

void RedisQueue::SendLoop() {
  std::optional<Link> link;
  while (true) {
    std::vector<Errand> errands = TakeErrands();
    if (errands.empty() && Stopping()) return;
    absl::Status status;
    if (!link) {
      absl::StatusOr<Link> connected = Connect();
      status = connected.status();
      if (connected.ok()) link = *std::move(connected);
    }
    if (status.ok()) status = SendErrands(*link, errands);
    if (status.ok()) continue;
    link.reset();
    if (Stopping()) return;  // what was not sent is nobody's any more
    {
      absl::MutexLock lock(&mutex_);
      for (auto errand = errands.rbegin(); errand != errands.rend(); ++errand) {
        if (const auto open = open_.find(errand->token); open != open_.end()) open->second.queued = true;
        outbox_.push_front(std::move(*errand));
      }
    }
    Pause(kReconnect);
  }
}

absl::Status RedisQueue::SendErrands(Link& link, std::vector<Errand>& errands) {
  // Copies: a submission may be abandoned or raised while it is on its way.
  std::vector<std::optional<Submission>> submissions(errands.size());
  {
    absl::MutexLock lock(&mutex_);
    for (size_t i = 0; i < errands.size(); ++i) {
      const auto open = open_.find(errands[i].token);
      if (errands[i].abandoned_key.empty() && open != open_.end()) submissions[i] = open->second.submission;
    }
  }
  std::deque<std::string> numbers;
  const auto text = [&](int64_t number) { return absl::string_view(numbers.emplace_back(absl::StrCat(number))); };
  std::vector<Arguments> commands;
  std::vector<size_t> sent;
  for (size_t i = 0; i < errands.size(); ++i) {
    const Errand& errand = errands[i];
    Arguments command = {"EVALSHA", link.sha, "1", kPrefix};
    if (!errand.abandoned_key.empty()) {
      command.insert(command.end(), {"abandon", errand.abandoned_key, options_.node, text(errand.token)});
    } else if (submissions[i]) {
      const Submission& job = *submissions[i];
      command.insert(command.end(), {"submit", job.key, job.kind, text(static_cast<int64_t>(job.priority)), job.digest,
                                     job.retain ? "1" : "0", options_.node, text(errand.token),
                                     text(options_.limit_bytes), job.payload});
    } else {
      continue;
    }
    commands.push_back(std::move(command));
    sent.push_back(i);
  }
  if (commands.empty()) return absl::OkStatus();
  HONE_ASSIGN_OR_RETURN(const auto replies, link.connection->RunAll(commands));
  std::vector<Errand> again;
  absl::Status failed;
  for (size_t j = 0; j < replies.size(); ++j) {
    const Errand& errand = errands[sent[j]];
    // Redis is there and cannot take it now: it is still reading its file, or lost our script.
    if (absl::IsUnavailable(replies[j].status())) {
      failed = replies[j].status();
      again.push_back(errand);
    } else if (errand.abandoned_key.empty()) {
      Settle(errand.token, replies[j], link.run);
    }
  }
  errands = std::move(again);
  return failed;
}

/// What Redis said to a submission: nothing more to do when it has the job.
void RedisQueue::Settle(int64_t token, const absl::StatusOr<RedisReply>& reply, const std::string& run) {
  if (!reply.ok()) return Deliver(token, {Outcome::Ending::kRefused, "", "", reply.status()});
  const absl::string_view said = reply->TextAt(0);
  if (said == "ok") {
    absl::MutexLock lock(&mutex_);
    if (const auto open = open_.find(token); open != open_.end()) open->second.sent_to = run;
    return;
  }
  if (said == "kept") return Deliver(token, {Outcome::Ending::kDone, std::string(reply->TextAt(1)), "", {}});
  std::string key;
  {
    absl::MutexLock lock(&mutex_);
    if (const auto open = open_.find(token); open != open_.end()) key = open->second.submission.key;
  }
  const absl::Status refusal =
      said == "full" ? absl::ResourceExhaustedError(absl::StrCat("the queue at ", options_.address.Name(), " holds ",
                                                                 reply->TextAt(1), " bytes; ", reply->TextAt(2),
                                                                 " more would pass its limit of ", options_.limit_bytes))
                     : absl::InvalidArgumentError(absl::StrCat("key '", key, "' ", reply->TextAt(1),
                                                               " another task, candidate or protocol"));
  Deliver(token, {Outcome::Ending::kRefused, "", "", refusal});
}

// --------------------------------------------------------------------------------------------------------- listener

/// An earlier run of Redis may have taken them with it. Those that it saved are joined.
void RedisQueue::SubmitWhatIsLost(const std::string& run) {
  absl::MutexLock lock(&mutex_);
  for (auto& [token, open] : open_) {
    if (open.sent_to.empty() || open.sent_to == run) continue;
    if (!std::exchange(open.queued, true)) outbox_.push_back({token, ""});
  }
}

void RedisQueue::ListenLoop() {
  std::string last = "0-0";
  while (!Stopping()) {
    absl::StatusOr<Link> link = Connect();
    absl::Status status = link.status();
    if (status.ok()) {
      {
        absl::MutexLock lock(&mutex_);
        listening_ = stopping_ ? nullptr : link->connection.get();
      }
      status = Listen(*link, last, absl::Milliseconds(1));
      if (status.ok()) SubmitWhatIsLost(link->run);
      while (status.ok() && !Stopping()) status = Listen(*link, last, absl::Seconds(1));
      absl::MutexLock lock(&mutex_);
      listening_ = nullptr;
    }
    if (!status.ok()) Pause(kReconnect);
  }
}

/// Waits for outcomes and hands them out.
absl::Status RedisQueue::Listen(Link& link, std::string& last, absl::Duration wait) {
  const std::string stream = absl::StrCat(kPrefix, "results:", options_.node);
  HONE_ASSIGN_OR_RETURN(const RedisReply read, link.connection->Run({"XREAD", "COUNT", "64", "BLOCK", absl::StrCat(absl::ToInt64Milliseconds(wait)),
                                                                   "STREAMS", stream, last}));
  if (read.list.empty() || read.list[0].list.size() < 2) return absl::OkStatus();
  std::vector<absl::string_view> remove = {"XDEL", stream};
  for (const RedisReply& entry : read.list[0].list[1].list) {
    last = std::string(entry.TextAt(0));
    remove.push_back(entry.TextAt(0));
    if (entry.list.size() < 2 || entry.list[1].list.size() < 6) continue;
    const RedisReply& fields = entry.list[1];  // token, ending, body with their names
    Outcome outcome;
    const absl::string_view ending = fields.TextAt(3);
    outcome.ending = ending == "done"   ? Outcome::Ending::kDone
                     : ending == "dead" ? Outcome::Ending::kDead
                                        : Outcome::Ending::kCancelled;
    (ending == "done" ? outcome.result : outcome.reason) = std::string(fields.TextAt(5));
    Deliver(ToInt(fields.TextAt(1)), outcome);
  }
  return link.connection->Run(remove).status();
}

// ---------------------------------------------------------------------------------------------------- waking, heart

void RedisQueue::WakeLoop() {
  while (!Stopping()) {
    absl::StatusOr<Link> link = Connect();
    absl::Status status = link.status();
    if (status.ok()) status = link->connection->Run({"SUBSCRIBE", absl::StrCat(kPrefix, "wake")}).status();
    if (status.ok()) {
      absl::MutexLock lock(&mutex_);
      subscribed_ = stopping_ ? nullptr : link->connection.get();
      for (Waiter* waiter : waiters_) waiter->woken = true;  // what was said while nobody listened
    }
    while (status.ok() && !Stopping()) {
      const absl::StatusOr<RedisReply> message = link->connection->Receive(absl::Seconds(1));
      if (absl::IsDeadlineExceeded(message.status())) continue;
      status = message.status();
      if (!message.ok()) break;
      absl::MutexLock lock(&mutex_);
      WakeOne(message->TextAt(2));
    }
    {
      absl::MutexLock lock(&mutex_);
      subscribed_ = nullptr;
    }
    if (!status.ok()) Pause(kReconnect);
  }
}

void RedisQueue::WakeOne(absl::string_view kind) {
  for (Waiter* waiter : waiters_) {
    if (waiter->woken || std::find(waiter->kinds.begin(), waiter->kinds.end(), kind) == waiter->kinds.end()) continue;
    waiter->woken = true;
    return;
  }
}

void RedisQueue::HeartLoop() {
  std::optional<Link> link;
  SteadyTime connected;
  while (!Stopping()) {
    absl::Status status;
    if (!link) {
      absl::StatusOr<Link> fresh = Connect();
      status = fresh.status();
      if (fresh.ok()) link = *std::move(fresh);
      connected = SteadyTime::Now();
    }
    // After an outage of Redis everybody's leases look old: they first get the time to be renewed.
    if (status.ok()) status = Beat(*link, SteadyTime::Now() - connected > options_.lost_after);
    if (absl::IsInternal(status)) log_.Error("queue", {{"error", status.message()}});
    if (!status.ok()) link.reset();
    Pause(status.ok() ? options_.lost_after / 4 : kReconnect);
  }
}

absl::Status RedisQueue::Beat(Link& link, bool reap) {
  std::vector<std::string> leases;
  {
    absl::MutexLock lock(&mutex_);
    const SteadyTime now = SteadyTime::Now();
    for (const auto& [lease, held] : held_) {
      if (held.end <= now) continue;  // hung, or reporting in vain: somebody else's turn
      leases.push_back(held.key);
      leases.push_back(absl::StrCat(lease));
    }
  }
  Arguments beat = {"beat", options_.node};
  beat.insert(beat.end(), leases.begin(), leases.end());
  HONE_RETURN_IF_ERROR(link.Call(beat).status());
  if (!reap) return absl::OkStatus();
  HONE_ASSIGN_OR_RETURN(const RedisReply reply,
                        link.Call({"reap", absl::StrCat(absl::ToInt64Milliseconds(options_.lost_after)),
                                   absl::StrCat(options_.max_tries), absl::StrCat(options_.max_dead_letters)}));
  if (reply.list.size() > 1 && reply.list[1].integer > 0) log_.Warning("claimed lost leases", {{"jobs", reply.list[1].integer}});
  return absl::OkStatus();
}

// ---------------------------------------------------------------------------------------------------------- leasing

absl::StatusOr<std::optional<LeasedJob>> RedisQueue::TryLease(absl::Span<const std::string> kinds, absl::Duration duration) {
  const int64_t lease = RandomId();
  const std::string lease_text = absl::StrCat(lease);
  Arguments arguments = {"lease", options_.node, lease_text};
  arguments.insert(arguments.end(), kinds.begin(), kinds.end());
  HONE_ASSIGN_OR_RETURN(RedisReply reply, Call(arguments));
  if (reply.TextAt(0) != "job" || reply.list.size() < 9) return std::nullopt;
  LeasedJob job;
  job.id = ToInt(reply.TextAt(1));
  job.lease = lease;
  job.key = std::move(reply.list[2].text);
  job.kind = std::move(reply.list[3].text);
  job.payload = std::move(reply.list[4].text);
  job.state = std::move(reply.list[5].text);
  job.tries = static_cast<int>(ToInt(reply.TextAt(6)));
  job.digest = std::move(reply.list[7].text);
  job.waited = absl::Microseconds(ToInt(reply.TextAt(8)));
  absl::MutexLock lock(&mutex_);
  held_[lease] = {job.key, SteadyTime::Now() + duration};
  return job;
}

absl::StatusOr<std::optional<LeasedJob>> RedisQueue::Lease(absl::Span<const std::string> kinds, absl::Duration duration,
                                                           SteadyTime deadline) {
  Waiter waiter{kinds};
  std::list<Waiter*>::iterator place;
  {
    absl::MutexLock lock(&mutex_);
    if (closed_) return std::nullopt;
    place = waiters_.insert(waiters_.end(), &waiter);
  }
  absl::StatusOr<std::optional<LeasedJob>> leased = std::optional<LeasedJob>();
  while (true) {
    {
      absl::MutexLock lock(&mutex_);
      waiter.woken = false;  // from here on a wake-up means another look
    }
    leased = TryLease(kinds, duration);
    const bool passing = absl::IsUnavailable(leased.status());  // Note has told; wait for Redis as for work
    absl::MutexLock lock(&mutex_);
    if ((leased.ok() && leased->has_value()) || (!leased.ok() && !passing) || closed_ || SteadyTime::Now() >= deadline) {
      waiters_.erase(place);
      // The job that woke this one may be another than the one it got.
      if (std::exchange(waiter.woken, false) && leased.ok() && leased->has_value()) {
        for (const std::string& kind : kinds) WakeOne(kind);
      }
      if (passing) return std::nullopt;
      return leased;
    }
    const std::pair<const Waiter*, const bool*> both{&waiter, &closed_};
    const auto woken = [](const std::pair<const Waiter*, const bool*>* both) { return both->first->woken || *both->second; };
    const absl::Duration most = passing ? kReconnect : kPoll;
    AwaitUntil(mutex_, absl::Condition(+woken, &both), std::min(deadline, SteadyTime::Now() + most));
  }
}

absl::Status RedisQueue::Renew(const LeasedJob& job, absl::Duration duration) {
  HONE_ASSIGN_OR_RETURN(const RedisReply reply, Call({"held", job.key, absl::StrCat(job.lease)}));
  absl::MutexLock lock(&mutex_);
  const auto held = held_.find(job.lease);
  if (reply.TextAt(0) != "ok" || held == held_.end()) {
    held_.erase(job.lease);
    return absl::NotFoundError(absl::StrCat("the lease on job ", job.id, " is lost"));
  }
  held->second.end = SteadyTime::Now() + duration;
  return absl::OkStatus();
}

/// What a worker has to say waits for Redis, as long as the lease would have lasted.
absl::Status RedisQueue::Report(const LeasedJob& job, const Arguments& arguments) {
  SteadyTime end;
  {
    absl::MutexLock lock(&mutex_);
    const auto held = held_.find(job.lease);
    end = held == held_.end() ? SteadyTime::InfinitePast() : held->second.end;
  }
  absl::StatusOr<RedisReply> reply = absl::UnknownError("");
  while (true) {
    reply = Call(arguments);
    if (!absl::IsUnavailable(reply.status())) break;
    absl::MutexLock lock(&mutex_);
    if (closed_) end = std::min(end, trouble_since_ + kPatienceOnceClosed);
    if (stopping_ || SteadyTime::Now() >= end) break;
    AwaitFor(mutex_, absl::Condition(&stopping_), kReconnect);
  }
  {
    absl::MutexLock lock(&mutex_);
    held_.erase(job.lease);
  }
  HONE_RETURN_IF_ERROR(reply.status());
  if (reply->TextAt(0) == "ok") return absl::OkStatus();
  return absl::NotFoundError(absl::StrCat("the lease on job ", job.id, " is lost"));
}

absl::Status RedisQueue::Advance(const LeasedJob& job, const std::string& kind, const std::string& state) {
  return Report(job, {"advance", job.key, absl::StrCat(job.lease), kind, state});
}

absl::Status RedisQueue::Complete(const LeasedJob& job, const std::string& result) {
  const std::string retention = absl::StrCat(absl::ToInt64Microseconds(options_.retention));
  return Report(job, {"complete", job.key, absl::StrCat(job.lease), retention, result});
}

absl::Status RedisQueue::Fail(const LeasedJob& job, const std::string& reason) {
  return Report(job, {"fail", job.key, absl::StrCat(job.lease), absl::StrCat(options_.max_tries),
                      absl::StrCat(options_.max_dead_letters), reason});
}

absl::Status RedisQueue::Release(const LeasedJob& job) {
  return Report(job, {"release", job.key, absl::StrCat(job.lease)});
}

void RedisQueue::Close() {
  absl::MutexLock lock(&mutex_);
  closed_ = true;
}

// --------------------------------------------------------------------------------------------------------- the rest

QueueStats RedisQueue::Stats() const {
  const absl::StatusOr<RedisReply> reply = Call({"stats"});
  QueueStats stats;
  if (reply.ok()) {
    stats.bytes = ToInt(reply->TextAt(1));
    stats.dead = ToInt(reply->TextAt(2));
    stats.limit_bytes = options_.limit_bytes;
    for (size_t i = 3; i + 2 < reply->list.size(); i += 3) {
      absl::string_view stream = reply->TextAt(i);  // "{hone}:q:lane/cuda:2"
      absl::ConsumePrefix(&stream, absl::StrCat(kPrefix, "q:"));
      QueueStats::Kind& kind = stats.kinds[std::string(stream.substr(0, stream.rfind(':')))];
      kind.waiting += ToInt(reply->TextAt(i + 1));
      kind.leased += ToInt(reply->TextAt(i + 2));
    }
  }
  absl::MutexLock lock(&mutex_);
  if (reply.ok()) last_stats_ = stats;
  stats = last_stats_;
  stats.trouble = reply.ok() ? "" : std::string(reply.status().message());
  return stats;
}

absl::StatusOr<std::vector<DeadLetter>> RedisQueue::DeadLetters(int limit) const {
  HONE_ASSIGN_OR_RETURN(const Link link, Connect());
  HONE_ASSIGN_OR_RETURN(const RedisReply reply, link.connection->Run({"XREVRANGE", absl::StrCat(kPrefix, "dead"), "+", "-",
                                                                      "COUNT", absl::StrCat(limit)}));
  std::vector<DeadLetter> letters;
  for (const RedisReply& entry : reply.list) {
    if (entry.list.size() < 2) continue;
    const RedisReply& fields = entry.list[1];
    letters.push_back({std::string(fields.TextAt(1)), std::string(fields.TextAt(3)), std::string(fields.TextAt(5))});
  }
  return letters;
}

}  // namespace

absl::StatusOr<std::unique_ptr<Queue>> OpenRedisQueue(RedisQueueOptions options, Logger log) {
  if (options.node.empty()) options.node = NodeName();
  auto queue = std::make_unique<RedisQueue>(std::move(options), std::move(log));
  HONE_RETURN_IF_ERROR(queue->Start());
  return queue;
}

}  // namespace hone::verifier
