// What verifier/queue/queue.h promises, of both queues alike. What only one of them does is in its own test.

#include <atomic>
#include <catch2/catch_template_test_macros.hpp>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/match.h"
#include "tests/verifier/queue/bench.h"
#include "verifier/queue/queue.h"

namespace hone::verifier {
namespace {

#define QUEUE_TEST(claim) TEMPLATE_TEST_CASE(claim, "[verifier][queue]", EmbeddedQueue, FarmQueue)

QUEUE_TEST("A job passes through its kinds with its state, bytes unchanged, and ends with its result, once") {
  TestType f;
  const auto builder = f.Elsewhere();
  Heard heard;
  const std::string binary("pay\0load\r\n\xff", 11);
  Submission submission = Job("a");
  submission.payload = binary;
  REQUIRE(f.queue->Submit(submission, heard.Listener()).ok());
  const std::optional<LeasedJob> build = f.LeaseSoon(kBuild, absl::Seconds(30), builder.get());
  REQUIRE(build);
  CHECK(build->payload == binary);
  CHECK(build->digest == "digest");
  CHECK(build->state.empty());
  CHECK_FALSE(f.LeaseNow());
  REQUIRE(builder->Advance(*build, "lane/cpu", binary).ok());
  CHECK_FALSE(f.LeaseNow());
  const std::optional<LeasedJob> judge = f.LeaseSoon({"lane/cpu"});
  REQUIRE(judge);
  CHECK(judge->payload == binary);
  CHECK(judge->state == binary);
  CHECK(judge->tries == 1);
  REQUIRE(f.queue->Complete(*judge, binary).ok());
  REQUIRE(heard.Waits(1));
  CHECK(heard.All().front().ending == Outcome::Ending::kDone);
  CHECK(heard.All().front().result == binary);
  CHECK(absl::IsNotFound(f.queue->Complete(*judge, "again")));
  CHECK(f.queue->Stats().bytes == 0);
  CHECK(heard.count() == 1);
}

QUEUE_TEST("Higher priority overtakes, equals keep their order, and a second submission raises its job") {
  TestType f;
  for (const auto& [key, priority] : std::vector<std::pair<std::string, Priority>>{
           {"low", Priority::kLow}, {"one", Priority::kNormal}, {"two", Priority::kNormal}, {"high", Priority::kHigh}}) {
    REQUIRE(f.queue->Submit(Job(key, priority), nullptr).ok());
  }
  REQUIRE(f.Holds(4));
  SECTION("as submitted") {
    for (const char* key : {"high", "one", "two", "low"}) CHECK(f.LeaseNow()->key == key);
  }
  SECTION("raised, from another process too") {
    const auto other = f.Elsewhere();
    REQUIRE(other->Submit(Job("two", Priority::kHigh), nullptr).ok());
    REQUIRE(f.WaitFor("two", 2));
    std::set<std::string> first;  // each queue has its own order of these two
    for (int i = 0; i < 2; ++i) first.insert(f.LeaseNow()->key);
    CHECK(first == std::set<std::string>{"high", "two"});
    for (const char* key : {"one", "low"}) CHECK(f.LeaseNow()->key == key);
  }
}

QUEUE_TEST("The first kind named is leased first, whatever the priority") {
  TestType f;
  REQUIRE(f.queue->Submit(Job("judge", Priority::kHigh), nullptr).ok());
  Submission describe = Job("describe", Priority::kLow);
  describe.kind = "describe/cpu";
  REQUIRE(f.queue->Submit(describe, nullptr).ok());
  REQUIRE(f.Holds(1));
  REQUIRE(f.Holds(1, "describe/cpu"));
  CHECK(f.LeaseNow({"describe/cpu", "build/cpu"})->key == "describe");
}

QUEUE_TEST("Submissions of one key are one job and all of them hear its end") {
  TestType f;
  const auto other = f.Elsewhere();
  Heard here, there;
  REQUIRE(f.queue->Submit(Job("k"), here.Listener()).ok());
  REQUIRE(f.queue->Submit(Job("k"), here.Listener()).ok());
  REQUIRE(f.Holds(1));
  const std::optional<LeasedJob> job = f.LeaseSoon();
  REQUIRE(other->Submit(Job("k"), there.Listener()).ok());
  REQUIRE(f.WaitFor("k", 2));
  CHECK_FALSE(f.LeaseNow());
  REQUIRE(f.queue->Complete(*job, "r").ok());
  CHECK(here.Waits(2));
  CHECK(there.Waits(1));
}

QUEUE_TEST("A key that names another job is refused") {
  TestType f;
  REQUIRE(f.queue->Submit(Job("k"), nullptr).ok());
  Submission other = Job("k");
  other.digest = "another digest";
  CHECK(absl::IsInvalidArgument(f.queue->Submit(other, nullptr).status()));
}

QUEUE_TEST("A retained result answers its key until the retention ends") {
  TestType f({.retention = absl::Milliseconds(500)});
  Submission submission = Job("k");
  submission.retain = true;
  REQUIRE(f.queue->Submit(submission, nullptr).ok());
  REQUIRE(f.queue->Complete(*f.LeaseSoon(), "kept").ok());
  Heard heard;
  REQUIRE(f.queue->Submit(submission, heard.Listener()).ok());
  REQUIRE(heard.Waits(1));
  CHECK(heard.All().front().result == "kept");
  CHECK_FALSE(f.LeaseNow());
  f.Pass(absl::Milliseconds(600));
  REQUIRE(f.queue->Submit(submission, heard.Listener()).ok());
  CHECK(f.LeaseSoon());
  CHECK(heard.count() == 1);
}

QUEUE_TEST("A job that fails three times is a dead letter with the last reason, and may be tried afresh") {
  TestType f;
  Heard heard;
  REQUIRE(f.queue->Submit(Job("k"), heard.Listener()).ok());
  for (int i = 1; i <= 3; ++i) {
    const std::optional<LeasedJob> job = f.LeaseSoon();
    REQUIRE(job);
    CHECK(job->tries == i);
    CHECK(heard.count() == 0);
    REQUIRE(f.queue->Fail(*job, "lane died, time " + std::to_string(i)).ok());
  }
  REQUIRE(heard.Waits(1));
  CHECK(heard.All().front().ending == Outcome::Ending::kDead);
  CHECK(heard.All().front().reason == "lane died, time 3 (3 tries)");
  CHECK_FALSE(f.LeaseNow());
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

QUEUE_TEST("Tries are counted for each kind, and a released job has spent none") {
  TestType f;
  REQUIRE(f.queue->Submit(Job("k"), nullptr).ok());
  for (int i = 0; i < 2; ++i) REQUIRE(f.queue->Fail(*f.LeaseSoon(), "x").ok());
  REQUIRE(f.queue->Advance(*f.LeaseSoon(), "lane/cpu", "").ok());
  for (int i = 0; i < 5; ++i) {
    const std::optional<LeasedJob> job = f.LeaseSoon({"lane/cpu"});
    CHECK(job->tries == 1);
    REQUIRE(f.queue->Release(*job).ok());
  }
}

QUEUE_TEST("A worker that hangs beyond its lease loses it, and its late report is refused") {
  TestType f;
  Heard heard;
  REQUIRE(f.queue->Submit(Job("k"), heard.Listener()).ok());
  const std::optional<LeasedJob> hung = f.LeaseSoon(kBuild, absl::Milliseconds(100));
  REQUIRE(hung);
  f.Pass(absl::Milliseconds(101));
  const std::optional<LeasedJob> second = f.LeaseSoon();
  REQUIRE(second);
  CHECK(second->tries == 2);
  CHECK(absl::IsNotFound(f.queue->Renew(*hung, absl::Hours(1))));
  CHECK(absl::IsNotFound(f.queue->Complete(*hung, "late")));
  CHECK(heard.count() == 0);
  REQUIRE(f.queue->Complete(*second, "r").ok());
  CHECK(heard.Waits(1));
}

QUEUE_TEST("Cancel ends waiting and running jobs for everybody who waits") {
  TestType f;
  const auto other = f.Elsewhere();
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

QUEUE_TEST("A waiting job is dropped when the last of its submitters goes away, a running one goes on") {
  TestType f;
  const auto other = f.Elsewhere();
  Heard heard;
  const auto one = f.queue->Submit(Job("k"), heard.Listener());
  REQUIRE(f.Holds(1));
  const auto two = other->Submit(Job("k"), heard.Listener());
  REQUIRE(f.WaitFor("k", 2));
  f.queue->Abandon(*one);
  REQUIRE(f.WaitFor("k", 1));
  CHECK(f.Holds(1));
  SECTION("waiting") {
    other->Abandon(*two);
    CHECK(f.Holds(0));
    CHECK_FALSE(f.LeaseNow());
    CHECK(f.queue->Stats().bytes == 0);
  }
  SECTION("running") {
    const std::optional<LeasedJob> job = f.LeaseSoon();
    other->Abandon(*two);
    CHECK(f.queue->Complete(*job, "r").ok());
  }
  CHECK(heard.count() == 0);
}

QUEUE_TEST("What would pass the byte budget is refused with the number, and taken once there is room") {
  TestType f({.bytes = 10'000});
  Submission big = Job("big");
  big.payload = std::string(8'000, 'x');
  REQUIRE(f.queue->Submit(big, nullptr).ok());
  REQUIRE(f.Holds(1));
  Submission more = Job("more");
  more.payload = std::string(3'000, 'x');
  const absl::Status full = f.queue->Submit(more, nullptr).status();
  CHECK(absl::IsResourceExhausted(full));
  CHECK(absl::StrContains(full.message(), "10000"));
  REQUIRE(f.queue->Complete(*f.LeaseSoon(), "r").ok());
  CHECK(Eventually([&] { return f.queue->Submit(more, nullptr).ok(); }));
}

QUEUE_TEST("Retained results give way to new work") {
  TestType f({.bytes = 10'000});
  Submission kept = Job("kept");
  kept.retain = true;
  REQUIRE(f.queue->Submit(kept, nullptr).ok());
  REQUIRE(f.queue->Complete(*f.LeaseSoon(), std::string(8'000, 'r')).ok());
  Submission big = Job("big");
  big.payload = std::string(8'000, 'x');
  CHECK(f.queue->Submit(big, nullptr).ok());
  CHECK(f.Holds(1));
}

QUEUE_TEST("Bytes come back to zero after any mixture of endings") {
  TestType f({.retention = absl::Milliseconds(1)});
  for (int i = 0; i < 100; ++i) {
    Submission submission = Job("k" + std::to_string(i));
    submission.retain = i % 5 == 0;
    const auto ticket = f.queue->Submit(submission, nullptr);
    REQUIRE(ticket.ok());
    if (i % 7 == 0) {
      REQUIRE(f.Holds(1));  // else it might be abandoned on its way
      f.queue->Abandon(*ticket);
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
      for (int t = 0; t < 2; ++t) {
        REQUIRE(f.queue->Fail(*job, "x").ok());
        job = f.LeaseSoon();
      }
    }
    REQUIRE(f.queue->Complete(*job, "r").ok());
  }
  f.Pass(absl::Milliseconds(2));
  REQUIRE(f.queue->Submit(Job("last"), nullptr).ok());
  REQUIRE(f.queue->Complete(*f.LeaseSoon(), "r").ok());
  CHECK(Eventually([&] { return f.queue->Stats().bytes == 0; }));
}

QUEUE_TEST("Lease waits for work in any process and Close wakes it") {
  TestType f;
  const std::vector<std::shared_ptr<Queue>> queues = {f.Elsewhere(), f.Elsewhere()};
  std::atomic<int> got{0}, empty{0};
  std::vector<std::thread> workers;
  for (size_t i = 0; i < 4; ++i) {
    workers.emplace_back([&, i] {
      Queue& queue = *queues[i % 2];
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
  for (const auto& queue : queues) queue->Close();
  for (std::thread& worker : workers) worker.join();
  CHECK(got == 500);
  CHECK(empty == 4);
}

}  // namespace
}  // namespace hone::verifier
