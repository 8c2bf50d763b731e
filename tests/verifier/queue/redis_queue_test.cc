// The Redis queue against a real redis-server: what queue_test.cc promises of the embedded one, and what a farm adds.

#include "verifier/queue/redis_queue.h"

#include <atomic>
#include <catch2/catch_test_macros.hpp>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/match.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/clock.h"
#include "base/steady_time.h"
#include "tests/support/redis_server.h"

namespace hone::verifier {
namespace {

const std::vector<std::string> kBuild = {"build/cpu"};

template <class Condition>
bool Eventually(Condition condition) {
  for (int i = 0; i < 5000; ++i) {
    if (condition()) return true;
    absl::SleepFor(absl::Milliseconds(1));
  }
  return false;
}

/// Counts what a submission is told.
struct Heard {
  struct Shared {
    absl::Mutex mutex;
    std::vector<Outcome> outcomes;
  };
  std::shared_ptr<Shared> shared = std::make_shared<Shared>();
  Queue::OnOutcome Listener() const {
    return [shared = shared](const Outcome& outcome) {
      absl::MutexLock lock(&shared->mutex);
      shared->outcomes.push_back(outcome);
    };
  }
  std::vector<Outcome> All() const {
    absl::MutexLock lock(&shared->mutex);
    return shared->outcomes;
  }
  size_t count() const { return All().size(); }
  bool Waits(size_t n) const { return Eventually([&] { return count() >= n; }); }
};

struct Fixture {
  RedisServer redis;
  RedisQueueOptions options;
  std::unique_ptr<Queue> queue;

  Fixture() {
    options.address = *ParseRedisUrl(redis.url());
    options.version = "test";
    options.lost_after = absl::Milliseconds(400);
    queue = Open("one");
  }
  std::unique_ptr<Queue> Open(const std::string& node) const {
    RedisQueueOptions mine = options;
    mine.node = node;
    auto opened = OpenRedisQueue(mine, Logger::Discard());
    INFO(opened.status().ToString());
    REQUIRE(opened.ok());
    return *std::move(opened);
  }
  /// Waits for the submissions that are on their way.
  std::optional<LeasedJob> LeaseSoon(const std::vector<std::string>& kinds = kBuild,
                                     absl::Duration duration = absl::Seconds(30), Queue* from = nullptr) const {
    auto leased = (from == nullptr ? *queue : *from).Lease(kinds, duration, SteadyTime::Now() + absl::Seconds(10));
    REQUIRE(leased.ok());
    return *leased;
  }
  std::optional<LeasedJob> LeaseNow(const std::vector<std::string>& kinds = kBuild) const {
    auto leased = queue->Lease(kinds, absl::Seconds(30), SteadyTime::InfinitePast());
    REQUIRE(leased.ok());
    return *leased;
  }
  /// How many processes wait for a key, as Redis knows it.
  bool WaitFor(const std::string& key, int64_t processes) const {
    const auto redis_now = RedisConnection::Open(options.address);
    REQUIRE(redis_now.ok());
    return Eventually([&] { return (*redis_now)->Run({"HLEN", "{hone}:watch:" + key})->integer == processes; });
  }
  bool Holds(int64_t waiting, const std::string& kind = "build/cpu") const {
    return Eventually([&] { return queue->Stats().kinds[kind].waiting == waiting; });
  }
};

Submission Job(const std::string& key, Priority priority = Priority::kNormal) {
  Submission submission;
  submission.key = key;
  submission.kind = "build/cpu";
  submission.priority = priority;
  submission.payload = "payload of " + key;
  submission.digest = "digest";
  return submission;
}

TEST_CASE("A Redis address is read whole, and a wrong one is named", "[verifier][queue][redis]") {
  const RedisAddress full = *ParseRedisUrl("redis://me:secret@example.org:7000/3");
  CHECK(full.user == "me");
  CHECK(full.password == "secret");
  CHECK(full.host == "example.org");
  CHECK(full.port == 7000);
  CHECK(full.database == 3);
  CHECK(full.Name() == "redis://example.org:7000/3");
  CHECK(ParseRedisUrl("redis://h")->port == 6379);
  CHECK(ParseRedisUrl("redis://[::1]:7/0")->host == "::1");
  for (const char* url : {"http://h", "redis://", "redis://h:0", "redis://h:70000", "redis://h/x", "redis://me@h"}) {
    const absl::Status status = ParseRedisUrl(url).status();
    CHECK(absl::IsInvalidArgument(status));
    CHECK(absl::StrContains(status.message(), url));
  }
}

TEST_CASE("Writing to a Redis that has gone is an error and not the end of the process", "[verifier][queue][redis]") {
  RedisServer redis;
  const auto connection = RedisConnection::Open(*ParseRedisUrl(redis.url()));
  REQUIRE(connection.ok());
  (*connection)->Shutdown();  // from here on a write raises SIGPIPE
  CHECK(absl::IsUnavailable((*connection)->Run({"PING"}).status()));
  CHECK((*connection)->broken());
  CHECK(absl::IsUnavailable((*connection)->Run({"PING"}).status()));
}

TEST_CASE("A job passes through its kinds over Redis and ends with its result, once", "[verifier][queue][redis]") {
  Fixture f;
  const std::unique_ptr<Queue> builder = f.Open("builder");
  const std::unique_ptr<Queue> lane = f.Open("lane");
  Heard heard;
  const std::string binary("pay\0load\r\n\xff", 11);
  Submission submission = Job("a");
  submission.payload = binary;
  REQUIRE(f.queue->Submit(submission, heard.Listener()).ok());
  std::optional<LeasedJob> build = f.LeaseSoon(kBuild, absl::Seconds(30), builder.get());
  REQUIRE(build);
  CHECK(build->payload == binary);
  CHECK(build->digest == "digest");
  CHECK(build->state.empty());
  REQUIRE(builder->Advance(*build, "lane/cpu", binary).ok());
  std::optional<LeasedJob> judge = f.LeaseSoon({"lane/cpu"}, absl::Seconds(30), lane.get());
  REQUIRE(judge);
  CHECK(judge->payload == binary);
  CHECK(judge->state == binary);
  CHECK(judge->tries == 1);
  REQUIRE(lane->Complete(*judge, binary).ok());
  REQUIRE(heard.Waits(1));
  CHECK(heard.All().front().ending == Outcome::Ending::kDone);
  CHECK(heard.All().front().result == binary);
  CHECK(absl::IsNotFound(lane->Complete(*judge, "again")));
  CHECK(f.queue->Stats().bytes == 0);
  CHECK(heard.count() == 1);
}

TEST_CASE("Higher priority overtakes over Redis, equals keep their order, and a second submission raises its job",
          "[verifier][queue][redis]") {
  Fixture f;
  for (const auto& [key, priority] : std::vector<std::pair<std::string, Priority>>{
           {"low", Priority::kLow}, {"one", Priority::kNormal}, {"two", Priority::kNormal}, {"high", Priority::kHigh}}) {
    REQUIRE(f.queue->Submit(Job(key, priority), nullptr).ok());
  }
  REQUIRE(f.Holds(4));
  SECTION("as submitted") {
    for (const char* key : {"high", "one", "two", "low"}) CHECK(f.LeaseNow()->key == key);
  }
  SECTION("raised, from another process too") {
    const std::unique_ptr<Queue> other = f.Open("other");
    REQUIRE(other->Submit(Job("two", Priority::kHigh), nullptr).ok());
    REQUIRE(f.WaitFor("two", 2));
    for (const char* key : {"high", "two", "one", "low"}) CHECK(f.LeaseNow()->key == key);
  }
}

TEST_CASE("Submissions of one key from several processes are one job and all hear its end", "[verifier][queue][redis]") {
  Fixture f;
  const std::unique_ptr<Queue> other = f.Open("other");
  Heard here, there;
  REQUIRE(f.queue->Submit(Job("k"), here.Listener()).ok());
  REQUIRE(f.queue->Submit(Job("k"), here.Listener()).ok());
  REQUIRE(f.Holds(1));
  REQUIRE(other->Submit(Job("k"), there.Listener()).ok());
  Submission different = Job("k");
  different.digest = "another";
  Heard refused;
  const std::unique_ptr<Queue> third = f.Open("third");
  REQUIRE(third->Submit(different, refused.Listener()).ok());
  REQUIRE(refused.Waits(1));
  CHECK(absl::IsInvalidArgument(refused.All().front().refusal));
  CHECK(absl::IsInvalidArgument(f.queue->Submit(different, nullptr).status()));
  REQUIRE(f.WaitFor("k", 2));
  std::optional<LeasedJob> job = f.LeaseSoon();
  CHECK_FALSE(f.LeaseNow());
  REQUIRE(f.queue->Complete(*job, "r").ok());
  CHECK(here.Waits(2));
  CHECK(there.Waits(1));
}

TEST_CASE("A retained result answers its key over Redis until the retention ends", "[verifier][queue][redis]") {
  Fixture f;
  f.options.retention = absl::Milliseconds(500);
  f.queue = f.Open("short");
  Submission submission = Job("k");
  submission.retain = true;
  REQUIRE(f.queue->Submit(submission, nullptr).ok());
  REQUIRE(f.queue->Complete(*f.LeaseSoon(), "kept").ok());
  Heard heard;
  REQUIRE(f.queue->Submit(submission, heard.Listener()).ok());
  REQUIRE(heard.Waits(1));
  CHECK(heard.All().front().result == "kept");
  absl::SleepFor(absl::Milliseconds(600));
  REQUIRE(f.queue->Submit(submission, heard.Listener()).ok());
  CHECK(f.LeaseSoon());
  CHECK(heard.count() == 1);
}

TEST_CASE("A job that fails three times over Redis is a dead letter with the last reason, and may be tried afresh",
          "[verifier][queue][redis]") {
  Fixture f;
  Heard heard;
  REQUIRE(f.queue->Submit(Job("k"), heard.Listener()).ok());
  for (int i = 1; i <= 3; ++i) {
    std::optional<LeasedJob> job = f.LeaseSoon();
    REQUIRE(job);
    CHECK(job->tries == i);
    REQUIRE(f.queue->Fail(*job, "lane died, time " + std::to_string(i)).ok());
  }
  REQUIRE(heard.Waits(1));
  CHECK(heard.All().front().ending == Outcome::Ending::kDead);
  CHECK(heard.All().front().reason == "lane died, time 3 (3 tries)");
  const auto letters = f.queue->DeadLetters(10);
  REQUIRE(letters.ok());
  REQUIRE(letters->size() == 1);
  CHECK(letters->front().key == "k");
  CHECK(letters->front().kind == "build/cpu");
  CHECK(letters->front().reason == "lane died, time 3 (3 tries)");
  REQUIRE(f.queue->Submit(Job("k"), heard.Listener()).ok());
  CHECK(f.LeaseSoon()->tries == 1);
  CHECK(f.queue->Stats().dead == 0);
}

TEST_CASE("Tries are counted for each kind, and a released job has spent none, over Redis", "[verifier][queue][redis]") {
  Fixture f;
  REQUIRE(f.queue->Submit(Job("k"), nullptr).ok());
  for (int i = 0; i < 2; ++i) REQUIRE(f.queue->Fail(*f.LeaseSoon(), "x").ok());
  REQUIRE(f.queue->Advance(*f.LeaseSoon(), "lane/cpu", "").ok());
  for (int i = 0; i < 5; ++i) {
    std::optional<LeasedJob> job = f.LeaseSoon({"lane/cpu"});
    CHECK(job->tries == 1);
    REQUIRE(f.queue->Release(*job).ok());
  }
}

TEST_CASE("The lease of a process that died is claimed by another, and its late report is refused",
          "[verifier][queue][redis]") {
  Fixture f;
  std::unique_ptr<Queue> dying = f.Open("dying");
  Heard heard;
  REQUIRE(f.queue->Submit(Job("k"), heard.Listener()).ok());
  std::optional<LeasedJob> lost = f.LeaseSoon(kBuild, absl::Hours(1), dying.get());
  REQUIRE(lost);
  SECTION("not while it lives") {
    absl::SleepFor(4 * f.options.lost_after);
    CHECK_FALSE(f.LeaseNow());
    CHECK(dying->Complete(*lost, "r").ok());
    CHECK(heard.Waits(1));
  }
  SECTION("once it is gone") {
    dying.reset();
    std::optional<LeasedJob> second = f.LeaseSoon();
    REQUIRE(second);
    CHECK(second->tries == 2);
    CHECK(absl::IsNotFound(f.queue->Complete(*lost, "late")));
    REQUIRE(f.queue->Complete(*second, "r").ok());
    REQUIRE(heard.Waits(1));
    CHECK(heard.All().front().result == "r");
  }
}

TEST_CASE("A worker that hangs beyond its lease loses it although its process lives", "[verifier][queue][redis]") {
  Fixture f;
  REQUIRE(f.queue->Submit(Job("k"), nullptr).ok());
  std::optional<LeasedJob> hung = f.LeaseSoon(kBuild, absl::Milliseconds(100));
  REQUIRE(hung);
  std::optional<LeasedJob> second = f.LeaseSoon();
  REQUIRE(second);
  CHECK(second->tries == 2);
  CHECK(absl::IsNotFound(f.queue->Renew(*hung, absl::Hours(1))));
  CHECK(absl::IsNotFound(f.queue->Complete(*hung, "late")));
}

TEST_CASE("A job whose workers' processes die three times is dead", "[verifier][queue][redis]") {
  Fixture f;
  Heard heard;
  REQUIRE(f.queue->Submit(Job("poison"), heard.Listener()).ok());
  for (int i = 0; i < 3; ++i) {
    std::unique_ptr<Queue> victim = f.Open("victim" + std::to_string(i));
    REQUIRE(f.LeaseSoon(kBuild, absl::Hours(1), victim.get()));
  }
  REQUIRE(heard.Waits(1));
  CHECK(heard.All().front().ending == Outcome::Ending::kDead);
  CHECK(absl::StrContains(heard.All().front().reason, "victim2"));
  CHECK(absl::StrContains(heard.All().front().reason, "no sign of life"));
}

TEST_CASE("Cancel over Redis ends waiting and running jobs for everybody", "[verifier][queue][redis]") {
  Fixture f;
  const std::unique_ptr<Queue> other = f.Open("other");
  Heard here, there;
  REQUIRE(f.queue->Submit(Job("k"), here.Listener()).ok());
  REQUIRE(f.queue->Submit(Job("k"), here.Listener()).ok());
  REQUIRE(f.Holds(1));
  REQUIRE(other->Submit(Job("k"), there.Listener()).ok());
  std::optional<LeasedJob> job;
  SECTION("waiting") {}
  SECTION("running") { job = f.LeaseSoon(); }
  REQUIRE(f.WaitFor("k", 2));
  CHECK(*f.queue->Cancel("k") == 3);
  REQUIRE(here.Waits(2));
  REQUIRE(there.Waits(1));
  for (const Outcome& outcome : here.All()) CHECK(outcome.ending == Outcome::Ending::kCancelled);
  CHECK(there.All().front().reason == "cancelled on request");
  if (job) CHECK(absl::IsNotFound(f.queue->Complete(*job, "late")));
  CHECK_FALSE(f.LeaseNow());
  CHECK(*f.queue->Cancel("k") == 0);
  CHECK(f.queue->Stats().bytes == 0);
}

TEST_CASE("A waiting job is dropped from Redis when the last of its submitters goes away", "[verifier][queue][redis]") {
  Fixture f;
  const std::unique_ptr<Queue> other = f.Open("other");
  const auto one = f.queue->Submit(Job("k"), nullptr);
  REQUIRE(f.Holds(1));
  const auto two = other->Submit(Job("k"), nullptr);
  REQUIRE(f.WaitFor("k", 2));
  f.queue->Abandon(*one);
  REQUIRE(f.WaitFor("k", 1));
  CHECK(f.Holds(1));
  other->Abandon(*two);
  CHECK(f.Holds(0));
  CHECK(f.queue->Stats().bytes == 0);
}

TEST_CASE("Redis refuses what would pass the byte budget, and retained results give way", "[verifier][queue][redis]") {
  Fixture f;
  f.options.limit_bytes = 10'000;
  f.queue = f.Open("small");
  const std::unique_ptr<Queue> other = f.Open("other");
  Submission kept = Job("kept");
  kept.retain = true;
  REQUIRE(f.queue->Submit(kept, nullptr).ok());
  REQUIRE(f.queue->Complete(*f.LeaseSoon(), std::string(8'000, 'r')).ok());
  Submission big = Job("big");
  big.payload = std::string(8'000, 'x');
  REQUIRE(f.queue->Submit(big, nullptr).ok());
  REQUIRE(f.Holds(1));
  Submission more = Job("more");
  more.payload = std::string(3'000, 'x');
  Heard refused;
  REQUIRE(other->Submit(more, refused.Listener()).ok());
  REQUIRE(refused.Waits(1));
  CHECK(absl::IsResourceExhausted(refused.All().front().refusal));
  CHECK(absl::StrContains(refused.All().front().refusal.message(), "10000"));
  INFO("one's own share is refused at once");
  CHECK(absl::IsResourceExhausted(f.queue->Submit(more, nullptr).status()));
}

TEST_CASE("Bytes in Redis come back to zero after any mixture of endings", "[verifier][queue][redis]") {
  Fixture f;
  f.options.retention = absl::Milliseconds(1);
  f.queue = f.Open("short");
  Heard heard;
  for (int i = 0; i < 100; ++i) {
    Submission submission = Job("k" + std::to_string(i));
    submission.retain = i % 5 == 0;
    const auto ticket = f.queue->Submit(submission, heard.Listener());
    REQUIRE(ticket.ok());
    if (i % 7 == 0) {
      f.queue->Abandon(*ticket);
      absl::SleepFor(absl::Milliseconds(20));  // until both have reached Redis, it might be leased
      REQUIRE(f.Holds(0));
      continue;
    }
    std::optional<LeasedJob> job = f.LeaseSoon();
    REQUIRE(job);
    if (i % 3 == 0) {
      REQUIRE(f.queue->Advance(*job, "build/cpu", std::string(static_cast<size_t>(i), 's')).ok());
      job = f.LeaseSoon();
    }
    if (i % 11 == 0) {
      REQUIRE(f.queue->Fail(*job, "x").ok());
      job = f.LeaseSoon();
    }
    REQUIRE(f.queue->Complete(*job, "r").ok());
  }
  CHECK(Eventually([&] { return f.queue->Stats().bytes == 0; }));
}

TEST_CASE("Lease waits for work of its kinds in any process and Close wakes it", "[verifier][queue][redis]") {
  Fixture f;
  std::vector<std::unique_ptr<Queue>> queues;
  for (int i = 0; i < 2; ++i) queues.push_back(f.Open("worker" + std::to_string(i)));
  std::atomic<int> got{0}, empty{0};
  std::vector<std::thread> workers;
  for (int i = 0; i < 4; ++i) {
    workers.emplace_back([&, i] {
      Queue& queue = *queues[static_cast<size_t>(i % 2)];
      while (true) {
        auto leased = queue.Lease(kBuild, absl::Hours(1), SteadyTime::InfiniteFuture());
        if (!leased.ok() || !*leased) break;
        ++got;
        queue.Complete(**leased, "r").IgnoreError();
      }
      ++empty;
    });
  }
  std::atomic<int> heard{0};
  for (int i = 0; i < 500; ++i) {
    CHECK(f.queue->Submit(Job("k" + std::to_string(i)), [&](const Outcome&) { ++heard; }).ok());
  }
  CHECK(Eventually([&] { return heard == 500; }));
  for (auto& queue : queues) queue->Close();
  for (std::thread& worker : workers) worker.join();
  CHECK(got == 500);
  CHECK(empty == 4);
}

TEST_CASE("While Redis is gone submissions and reports wait, and both go on when it is back from its file",
          "[verifier][queue][redis]") {
  Fixture f;
  const std::unique_ptr<Queue> worker = f.Open("worker");
  Heard running, waiting, late;
  REQUIRE(f.queue->Submit(Job("running"), running.Listener()).ok());
  std::optional<LeasedJob> job = f.LeaseSoon(kBuild, absl::Hours(1), worker.get());
  REQUIRE(job);
  REQUIRE(f.queue->Submit(Job("waiting"), waiting.Listener()).ok());
  REQUIRE(f.Holds(1));
  f.redis.Kill();
  REQUIRE(f.queue->Submit(Job("late"), late.Listener()).ok());
  CHECK_FALSE(f.queue->Stats().trouble.empty());
  CHECK(absl::StrContains(f.queue->Stats().trouble, "127.0.0.1"));
  std::thread report([&] { CHECK(worker->Complete(*job, "r").ok()); });
  absl::SleepFor(absl::Milliseconds(300));
  f.redis.Start();
  report.join();
  CHECK(running.Waits(1));
  for (int i = 0; i < 2; ++i) {
    std::optional<LeasedJob> next = f.LeaseSoon(kBuild, absl::Hours(1), worker.get());
    REQUIRE(next);
    REQUIRE(worker->Complete(*next, "r").ok());
  }
  CHECK(waiting.Waits(1));
  CHECK(late.Waits(1));
  CHECK(running.count() + waiting.count() + late.count() == 3);
}

TEST_CASE("What Redis forgot in a crash is submitted again by the process that waits for it", "[verifier][queue][redis]") {
  Fixture f;
  Heard heard;
  for (int i = 0; i < 20; ++i) REQUIRE(f.queue->Submit(Job("k" + std::to_string(i)), heard.Listener()).ok());
  REQUIRE(f.Holds(20));
  f.redis.Kill();
  f.redis.Forget();
  f.redis.Start();
  for (int i = 0; i < 20; ++i) {
    std::optional<LeasedJob> job = f.LeaseSoon();
    REQUIRE(job);
    REQUIRE(f.queue->Complete(*job, "r").ok());
  }
  CHECK(heard.Waits(20));
}

TEST_CASE("A queue that opens before its Redis takes work and goes on when Redis is there", "[verifier][queue][redis]") {
  Fixture f;
  f.queue.reset();
  f.redis.Kill();
  f.queue = f.Open("early");
  Heard heard;
  REQUIRE(f.queue->Submit(Job("k"), heard.Listener()).ok());
  CHECK_FALSE(f.LeaseNow());
  f.redis.Start();
  std::optional<LeasedJob> job = f.LeaseSoon();
  REQUIRE(job);
  REQUIRE(f.queue->Complete(*job, "r").ok());
  CHECK(heard.Waits(1));
}

TEST_CASE("A queue with jobs of another version is refused, an empty one is anybody's", "[verifier][queue][redis]") {
  Fixture f;
  RedisQueueOptions newer = f.options;
  newer.version = "newer";
  CHECK(OpenRedisQueue(newer, Logger::Discard()).ok());
  RedisQueueOptions own = f.options;
  f.queue = f.Open("again");
  REQUIRE(f.queue->Submit(Job("k"), nullptr).ok());
  REQUIRE(f.Holds(1));
  const absl::Status status = OpenRedisQueue(newer, Logger::Discard()).status();
  CHECK(absl::IsFailedPrecondition(status));
  CHECK(absl::StrContains(status.message(), "newer"));
}

}  // namespace
}  // namespace hone::verifier
