// The Redis queue against a real redis-server: what a farm adds to what queue_contract_test.cc promises.

#include "verifier/queue/redis_queue.h"

#include <catch2/catch_test_macros.hpp>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/match.h"
#include "tests/verifier/queue/bench.h"

namespace hone::verifier {
namespace {

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

TEST_CASE("A key that names another process's job is refused to the one that waits", "[verifier][queue][redis]") {
  FarmQueue f;
  Heard heard, refused;
  REQUIRE(f.queue->Submit(Job("k"), heard.Listener()).ok());
  REQUIRE(f.Holds(1));
  Submission different = Job("k");
  different.digest = "another";
  const std::unique_ptr<Queue> other = f.Open("other");
  REQUIRE(other->Submit(different, refused.Listener()).ok());
  REQUIRE(refused.Waits(1));
  CHECK(absl::IsInvalidArgument(refused.All().front().refusal));
  REQUIRE(f.queue->Complete(*f.LeaseSoon(), "r").ok());
  CHECK(heard.Waits(1));
}

TEST_CASE("The lease of a process that died is claimed by another, and its late report is refused",
          "[verifier][queue][redis]") {
  FarmQueue f;
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

TEST_CASE("A job whose workers' processes die three times is dead", "[verifier][queue][redis]") {
  FarmQueue f;
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

TEST_CASE("What passes the byte budget by other processes' jobs is refused to the one that waits", "[verifier][queue][redis]") {
  FarmQueue f({.bytes = 10'000});
  const std::unique_ptr<Queue> other = f.Open("other");
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
}

TEST_CASE("While Redis is gone submissions and reports wait, and both go on when it is back from its file",
          "[verifier][queue][redis]") {
  FarmQueue f;
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
  FarmQueue f;
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
  FarmQueue f;
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
  FarmQueue f;
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
