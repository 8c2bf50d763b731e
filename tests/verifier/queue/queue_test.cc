#include "verifier/queue/queue.h"

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <catch2/catch_test_macros.hpp>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "base/file.h"
#include "base/steady_time.h"
#include "tests/support/memory_folder.h"
#include "verifier/queue/sqlite_queue.h"

namespace hone::verifier {
namespace {

const std::vector<std::string> kBuild = {"build/cpu"};

/// A queue file in a folder of its own, with a clock that only the test moves.
struct Fixture {
  TempFolder folder = MemoryFolder("queue_test");
  std::shared_ptr<std::atomic<int64_t>> now_s = std::make_shared<std::atomic<int64_t>>(1'000'000);
  std::shared_ptr<std::atomic<int64_t>> set_ahead_s = std::make_shared<std::atomic<int64_t>>(0);  // the time of day only
  SqliteQueueOptions options;
  std::unique_ptr<Queue> queue;

  Fixture() {
    options.path = folder.path() + "/queue.db";
    options.version = "test";
    options.now = [now_s = now_s, ahead_s = set_ahead_s] { return absl::FromUnixSeconds(*now_s + *ahead_s); };
    options.steady_now = [now_s = now_s] { return SteadyTime() + absl::Seconds(now_s->load()); };
    Reopen();
  }
  void Reopen() {
    queue.reset();
    auto opened = OpenSqliteQueue(options);
    INFO(opened.status().ToString());
    REQUIRE(opened.ok());
    queue = std::move(opened).value();
  }
  std::optional<LeasedJob> LeaseNow(const std::vector<std::string>& kinds = kBuild,
                                    absl::Duration duration = absl::Seconds(30)) {
    auto leased = queue->Lease(kinds, duration, SteadyTime::InfinitePast());
    REQUIRE(leased.ok());
    return *leased;
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

/// Counts what a submission is told.
struct Heard {
  std::shared_ptr<std::vector<Outcome>> outcomes = std::make_shared<std::vector<Outcome>>();
  Queue::OnOutcome Listener() const {
    return [outcomes = outcomes](const Outcome& outcome) { outcomes->push_back(outcome); };
  }
};

TEST_CASE("A job passes through its kinds with its state and ends with its result, once", "[verifier][queue]") {
  Fixture f;
  Heard heard;
  REQUIRE(f.queue->Submit(Job("a"), heard.Listener()).ok());
  std::optional<LeasedJob> build = f.LeaseNow();
  REQUIRE(build);
  CHECK(build->payload == "payload of a");
  CHECK(build->state.empty());
  CHECK_FALSE(f.LeaseNow());
  REQUIRE(f.queue->Advance(*build, "lane/cpu", "built").ok());
  CHECK_FALSE(f.LeaseNow());
  std::optional<LeasedJob> judge = f.LeaseNow({"lane/cpu"});
  REQUIRE(judge);
  CHECK(judge->payload == "payload of a");
  CHECK(judge->state == "built");
  CHECK(judge->tries == 1);
  REQUIRE(f.queue->Complete(*judge, "verdict").ok());
  REQUIRE(heard.outcomes->size() == 1);
  CHECK(heard.outcomes->front().ending == Outcome::Ending::kDone);
  CHECK(heard.outcomes->front().result == "verdict");
  CHECK(absl::IsNotFound(f.queue->Complete(*judge, "again")));
  CHECK(heard.outcomes->size() == 1);
  CHECK(f.queue->Stats().bytes == 0);
}

TEST_CASE("Higher priority overtakes, and equals keep their order", "[verifier][queue]") {
  Fixture f;
  for (const auto& [key, priority] : std::vector<std::pair<std::string, Priority>>{
           {"low", Priority::kLow}, {"one", Priority::kNormal}, {"two", Priority::kNormal}, {"high", Priority::kHigh}}) {
    REQUIRE(f.queue->Submit(Job(key, priority), nullptr).ok());
  }
  SECTION("as submitted") {
    for (const char* key : {"high", "one", "two", "low"}) CHECK(f.LeaseNow()->key == key);
  }
  SECTION("a second submission raises its job") {
    REQUIRE(f.queue->Submit(Job("two", Priority::kHigh), nullptr).ok());
    for (const char* key : {"two", "high", "one", "low"}) CHECK(f.LeaseNow()->key == key);
  }
  SECTION("also after a restart") {
    f.Reopen();
    for (const char* key : {"high", "one", "two", "low"}) CHECK(f.LeaseNow()->key == key);
  }
}

TEST_CASE("The first kind named is leased first, whatever the priority", "[verifier][queue]") {
  Fixture f;
  REQUIRE(f.queue->Submit(Job("judge", Priority::kHigh), nullptr).ok());
  Submission describe = Job("describe", Priority::kLow);
  describe.kind = "describe/cpu";
  REQUIRE(f.queue->Submit(describe, nullptr).ok());
  CHECK(f.LeaseNow({"describe/cpu", "build/cpu"})->key == "describe");
}

TEST_CASE("Submissions of one key are one job and all of them hear its end", "[verifier][queue]") {
  Fixture f;
  Heard one, two;
  REQUIRE(f.queue->Submit(Job("k"), one.Listener()).ok());
  std::optional<LeasedJob> job = f.LeaseNow();
  REQUIRE(f.queue->Submit(Job("k"), two.Listener()).ok());
  CHECK_FALSE(f.LeaseNow());
  REQUIRE(f.queue->Complete(*job, "r").ok());
  CHECK(one.outcomes->size() == 1);
  CHECK(two.outcomes->size() == 1);
}

TEST_CASE("A key that names another job is refused", "[verifier][queue]") {
  Fixture f;
  Submission first = Job("k");
  first.retain = true;
  REQUIRE(f.queue->Submit(first, nullptr).ok());
  Submission other = first;
  other.digest = "another digest";
  CHECK(absl::IsInvalidArgument(f.queue->Submit(other, nullptr).status()));
  REQUIRE(f.queue->Complete(*f.LeaseNow(), "r").ok());
  CHECK(absl::IsInvalidArgument(f.queue->Submit(other, nullptr).status()));
}

TEST_CASE("A retained result answers its key until the retention ends, also after a restart", "[verifier][queue]") {
  Fixture f;
  Submission submission = Job("k");
  submission.retain = true;
  REQUIRE(f.queue->Submit(submission, nullptr).ok());
  REQUIRE(f.queue->Complete(*f.LeaseNow(), "kept").ok());
  f.Reopen();
  Heard heard;
  REQUIRE(f.queue->Submit(submission, heard.Listener()).ok());
  REQUIRE(heard.outcomes->size() == 1);
  CHECK(heard.outcomes->front().result == "kept");
  CHECK_FALSE(f.LeaseNow());
  *f.now_s += 601;
  REQUIRE(f.queue->Submit(submission, heard.Listener()).ok());
  CHECK(heard.outcomes->size() == 1);
  CHECK(f.LeaseNow());
}

TEST_CASE("A job that fails is tried again, three times in all, and then told dead with the last reason",
          "[verifier][queue]") {
  Fixture f;
  Heard heard;
  REQUIRE(f.queue->Submit(Job("k"), heard.Listener()).ok());
  for (int i = 1; i <= 3; ++i) {
    std::optional<LeasedJob> job = f.LeaseNow();
    REQUIRE(job);
    CHECK(job->tries == i);
    CHECK(heard.outcomes->empty());
    REQUIRE(f.queue->Fail(*job, "lane died, time " + std::to_string(i)).ok());
  }
  REQUIRE(heard.outcomes->size() == 1);
  CHECK(heard.outcomes->front().ending == Outcome::Ending::kDead);
  CHECK(heard.outcomes->front().reason == "lane died, time 3 (3 tries)");
  CHECK_FALSE(f.LeaseNow());
  const auto letters = f.queue->DeadLetters(10);
  REQUIRE(letters.ok());
  REQUIRE(letters->size() == 1);
  CHECK(letters->front().key == "k");
  CHECK(letters->front().reason == "lane died, time 3 (3 tries)");

  INFO("a dead key may be tried afresh");
  REQUIRE(f.queue->Submit(Job("k"), heard.Listener()).ok());
  CHECK(f.LeaseNow()->tries == 1);
  CHECK(f.queue->Stats().dead == 0);
}

TEST_CASE("Each kind has its own tries", "[verifier][queue]") {
  Fixture f;
  REQUIRE(f.queue->Submit(Job("k"), nullptr).ok());
  for (int i = 0; i < 2; ++i) REQUIRE(f.queue->Fail(*f.LeaseNow(), "x").ok());
  REQUIRE(f.queue->Advance(*f.LeaseNow(), "lane/cpu", "").ok());
  CHECK(f.LeaseNow({"lane/cpu"})->tries == 1);
}

TEST_CASE("Setting the machine's clock ends no lease, and ages no job below nothing", "[verifier][queue]") {
  Fixture f;
  REQUIRE(f.queue->Submit(Job("held"), nullptr).ok());
  REQUIRE(f.queue->Submit(Job("waiting"), nullptr).ok());
  const std::optional<LeasedJob> held = f.LeaseNow();
  *f.set_ahead_s = 86'400;
  CHECK(f.queue->Renew(*held, absl::Seconds(30)).ok());
  *f.set_ahead_s = -86'400;
  const std::optional<LeasedJob> next = f.LeaseNow();
  REQUIRE(next);
  CHECK(next->key == "waiting");
  CHECK(next->waited == absl::ZeroDuration());
  *f.now_s += 31;
  CHECK(f.LeaseNow()->key == "held");
}

TEST_CASE("A lease that ends goes to another worker and the first one's report is refused", "[verifier][queue]") {
  Fixture f;
  Heard heard;
  REQUIRE(f.queue->Submit(Job("k"), heard.Listener()).ok());
  std::optional<LeasedJob> slow = f.LeaseNow(kBuild, absl::Seconds(10));
  *f.now_s += 9;
  CHECK_FALSE(f.LeaseNow());
  SECTION("unless it was renewed") {
    REQUIRE(f.queue->Renew(*slow, absl::Seconds(10)).ok());
    *f.now_s += 9;
    CHECK_FALSE(f.LeaseNow());
    CHECK(f.queue->Complete(*slow, "r").ok());
  }
  SECTION("once its time is over") {
    *f.now_s += 1;
    std::optional<LeasedJob> second = f.LeaseNow();
    REQUIRE(second);
    CHECK(second->tries == 2);
    CHECK(absl::IsNotFound(f.queue->Complete(*slow, "late")));
    CHECK(absl::IsNotFound(f.queue->Renew(*slow, absl::Seconds(1))));
    CHECK(heard.outcomes->empty());
    REQUIRE(f.queue->Complete(*second, "r").ok());
    CHECK(heard.outcomes->size() == 1);
  }
}

TEST_CASE("A released job comes back without having spent a try", "[verifier][queue]") {
  Fixture f;
  REQUIRE(f.queue->Submit(Job("k"), nullptr).ok());
  for (int i = 0; i < 5; ++i) {
    CHECK(f.LeaseNow()->tries == 1);
    *f.now_s += 31;
    f.Reopen();  // counts a try
    std::optional<LeasedJob> job = f.LeaseNow();
    CHECK(job->tries == 2);
    REQUIRE(f.queue->Release(*job).ok());
    job = f.LeaseNow();
    CHECK(job->tries == 2);
    REQUIRE(f.queue->Advance(*job, "build/cpu", "").ok());
  }
}

TEST_CASE("Cancel ends waiting and running jobs for everybody who waits", "[verifier][queue]") {
  Fixture f;
  Heard heard;
  REQUIRE(f.queue->Submit(Job("k"), heard.Listener()).ok());
  REQUIRE(f.queue->Submit(Job("k"), heard.Listener()).ok());
  SECTION("waiting") {
    CHECK(*f.queue->Cancel("k") == 2);
    CHECK_FALSE(f.LeaseNow());
  }
  SECTION("running: its late result is dropped") {
    std::optional<LeasedJob> job = f.LeaseNow();
    CHECK(*f.queue->Cancel("k") == 2);
    CHECK(absl::IsNotFound(f.queue->Complete(*job, "late")));
  }
  REQUIRE(heard.outcomes->size() == 2);
  for (const Outcome& outcome : *heard.outcomes) CHECK(outcome.ending == Outcome::Ending::kCancelled);
  CHECK(*f.queue->Cancel("k") == 0);
  f.Reopen();
  CHECK_FALSE(f.LeaseNow());
}

TEST_CASE("A waiting job is dropped when the last of its submitters goes away", "[verifier][queue]") {
  Fixture f;
  Heard heard;
  const auto one = f.queue->Submit(Job("k"), heard.Listener());
  const auto two = f.queue->Submit(Job("k"), heard.Listener());
  f.queue->Abandon(*one);
  SECTION("not before") { CHECK(f.LeaseNow()); }
  SECTION("then it is gone, for good") {
    f.queue->Abandon(*two);
    CHECK_FALSE(f.LeaseNow());
    f.Reopen();
    CHECK_FALSE(f.LeaseNow());
  }
  SECTION("a running one goes on") {
    std::optional<LeasedJob> job = f.LeaseNow();
    f.queue->Abandon(*two);
    CHECK(f.queue->Complete(*job, "r").ok());
  }
  CHECK(heard.outcomes->empty());
}

TEST_CASE("The queue refuses what would pass its byte budget, with both numbers, and takes it once there is room",
          "[verifier][queue]") {
  Fixture f;
  f.options.limit_bytes = 10'000;
  f.Reopen();
  Submission big = Job("big");
  big.payload = std::string(8'000, 'x');
  REQUIRE(f.queue->Submit(big, nullptr).ok());
  Submission more = Job("more");
  more.payload = std::string(3'000, 'x');
  const absl::Status full = f.queue->Submit(more, nullptr).status();
  CHECK(absl::IsResourceExhausted(full));
  CHECK(std::string(full.message()).find("10000") != std::string::npos);
  REQUIRE(f.queue->Complete(*f.LeaseNow(), "r").ok());
  CHECK(f.queue->Submit(more, nullptr).ok());
}

TEST_CASE("Retained results give way to new work", "[verifier][queue]") {
  Fixture f;
  f.options.limit_bytes = 10'000;
  f.Reopen();
  Submission kept = Job("kept");
  kept.retain = true;
  REQUIRE(f.queue->Submit(kept, nullptr).ok());
  REQUIRE(f.queue->Complete(*f.LeaseNow(), std::string(8'000, 'r')).ok());
  Submission big = Job("big");
  big.payload = std::string(8'000, 'x');
  CHECK(f.queue->Submit(big, nullptr).ok());
}

TEST_CASE("Bytes come back to zero after any mixture of endings", "[verifier][queue]") {
  Fixture f;
  for (int i = 0; i < 200; ++i) {
    Submission submission = Job("k" + std::to_string(i));
    submission.retain = i % 5 == 0;
    const auto ticket = f.queue->Submit(submission, nullptr);
    REQUIRE(ticket.ok());
    if (i % 7 == 0) {
      f.queue->Abandon(*ticket);
      continue;
    }
    std::optional<LeasedJob> job = f.LeaseNow();
    REQUIRE(job);
    if (i % 3 == 0) {
      REQUIRE(f.queue->Advance(*job, "build/cpu", std::string(static_cast<size_t>(i), 's')).ok());
      job = f.LeaseNow();
    }
    if (i % 11 == 0) {
      for (int t = 0; t < 2; ++t) {
        REQUIRE(f.queue->Fail(*job, "x").ok());
        job = f.LeaseNow();
      }
    }
    REQUIRE(f.queue->Complete(*job, "r").ok());
  }
  *f.now_s += 601;
  REQUIRE(f.queue->Submit(Job("last"), nullptr).ok());
  REQUIRE(f.queue->Complete(*f.LeaseNow(), "r").ok());
  CHECK(f.queue->Stats().bytes == 0);
  f.Reopen();
  CHECK(f.queue->Stats().bytes == 0);
}

TEST_CASE("A second process is told that the file is in use", "[verifier][queue]") {
  Fixture f;
  const absl::Status status = OpenSqliteQueue(f.options).status();
  CHECK(absl::IsFailedPrecondition(status));
  CHECK(std::string(status.message()).find("another process") != std::string::npos);
}

TEST_CASE("A file of another version, or no queue at all, is refused and left as it is", "[verifier][queue]") {
  Fixture f;
  REQUIRE(f.queue->Submit(Job("k"), nullptr).ok());
  f.queue.reset();
  SqliteQueueOptions newer = f.options;
  newer.version = "newer";
  CHECK(absl::IsFailedPrecondition(OpenSqliteQueue(newer).status()));
  f.Reopen();
  CHECK(f.LeaseNow());

  SqliteQueueOptions foreign = f.options;
  foreign.path = f.folder.path() + "/notes.txt";
  REQUIRE(WriteFileAtomically(foreign.path, std::string(5000, 'n')).ok());
  CHECK(absl::IsDataLoss(OpenSqliteQueue(foreign).status()));
  CHECK(*ReadFile(foreign.path) == std::string(5000, 'n'));
}

TEST_CASE("Jobs survive a restart under the kind they had reached; leases of the dead process count as tries",
          "[verifier][queue]") {
  Fixture f;
  for (const char* key : {"waiting", "leased", "advanced"}) REQUIRE(f.queue->Submit(Job(key), nullptr).ok());
  f.LeaseNow();  // "waiting" comes first: give it back
  f.Reopen();
  std::set<std::string> left;
  std::optional<LeasedJob> first = f.LeaseNow();
  CHECK(first->key == "waiting");
  CHECK(first->tries == 2);
  REQUIRE(f.queue->Release(*first).ok());
  REQUIRE(f.queue->Complete(*f.LeaseNow(), "r").ok());
  f.LeaseNow();
  std::optional<LeasedJob> advanced = f.LeaseNow();
  CHECK(advanced->key == "advanced");
  REQUIRE(f.queue->Advance(*advanced, "lane/cpu", "state").ok());
  f.Reopen();
  CHECK(f.LeaseNow()->key == "leased");
  advanced = f.LeaseNow({"lane/cpu"});
  REQUIRE(advanced);
  CHECK(advanced->state == "state");
}

TEST_CASE("A job that takes its process down three times is dead and does not take it down again", "[verifier][queue]") {
  Fixture f;
  REQUIRE(f.queue->Submit(Job("poison"), nullptr).ok());
  for (int i = 0; i < 3; ++i) {
    REQUIRE(f.LeaseNow());
    f.Reopen();
  }
  CHECK_FALSE(f.LeaseNow());
  CHECK(f.queue->DeadLetters(1)->size() == 1);
}

TEST_CASE("Lease waits for work and Close wakes it", "[verifier][queue]") {
  Fixture f;
  std::atomic<int> got{0}, empty{0};
  std::vector<std::thread> workers;
  for (int i = 0; i < 3; ++i) {
    workers.emplace_back([&] {
      while (true) {
        auto leased = f.queue->Lease(kBuild, absl::Hours(1), SteadyTime::InfiniteFuture());
        if (!leased.ok() || !*leased) break;
        ++got;
        f.queue->Complete(**leased, "r").IgnoreError();
      }
      ++empty;
    });
  }
  std::atomic<int> heard{0};
  for (int i = 0; i < 500; ++i) {
    REQUIRE(f.queue->Submit(Job("k" + std::to_string(i)), [&](const Outcome&) { ++heard; }).ok());
  }
  while (heard < 500) std::this_thread::yield();
  f.queue->Close();
  for (std::thread& worker : workers) worker.join();
  CHECK(got == 500);
  CHECK(empty == 3);
}

/// The child of the next test: submits and works until it is killed; every line written is a promise made.
[[noreturn]] void WriteUntilKilled(const SqliteQueueOptions& options, int promises, int round) {
  auto queue = OpenSqliteQueue(options);
  if (!queue.ok()) _exit(1);
  const auto promise = [&](char what, int i) {
    const std::string line = std::string(1, what) + std::to_string(round) + "." + std::to_string(i) + "\n";
    if (write(promises, line.data(), line.size()) < 0) _exit(1);
  };
  for (int i = 0;; ++i) {
    Submission submission = Job(std::to_string(round) + "." + std::to_string(i));
    submission.payload = submission.key + std::string(static_cast<size_t>(i * 7919 % 100'000), 'p');
    if (!(*queue)->Submit(submission, nullptr).ok()) _exit(1);
    promise('+', i);
    if (i % 3 != 0) continue;
    auto leased = (*queue)->Lease(kBuild, absl::Hours(1), SteadyTime::InfinitePast());
    if (!leased.ok() || !*leased) _exit(1);
    if (i % 2 == 0) {
      if (!(*queue)->Advance(**leased, "lane/cpu", std::string(50'000, 's')).ok()) _exit(1);
    } else {
      const std::string line = "?" + (*leased)->key + "\n";  // from here on it may be gone
      if (write(promises, line.data(), line.size()) < 0) _exit(1);
      if (!(*queue)->Complete(**leased, "r").ok()) _exit(1);
    }
  }
}

TEST_CASE("A writer killed at any moment loses no job that it was told is queued", "[verifier][queue]") {
  Fixture f;
  f.options.now = absl::Now;
  f.options.steady_now = SteadyTime::Now;
  f.options.max_tries = 1000;  // leases that end with the child are not what this is about
  f.queue.reset();
  std::set<std::string> owed;
  for (int round = 0; round < 12; ++round) {
    int fds[2];
    REQUIRE(pipe(fds) == 0);
    const pid_t child = fork();
    if (child == 0) {
      close(fds[0]);
      WriteUntilKilled(f.options, fds[1], round);
    }
    close(fds[1]);
    // Killed after a number of promises that differs from round to round, wherever the child then is.
    std::string text;
    char buffer[256];
    ssize_t size = 0;
    bool killed = false;
    while ((size = read(fds[0], buffer, sizeof(buffer))) > 0) {
      text.append(buffer, static_cast<size_t>(size));
      if (!killed && std::count(text.begin(), text.end(), '\n') > 20 + 13 * round) killed = kill(child, SIGKILL) == 0;
    }
    close(fds[0]);
    int status = 0;
    waitpid(child, &status, 0);
    REQUIRE(WIFSIGNALED(status));
    size_t begin = 0;
    for (size_t end = text.find('\n'); end != std::string::npos; begin = end + 1, end = text.find('\n', begin)) {
      const std::string key = text.substr(begin + 1, end - begin - 1);
      if (text[begin] == '+') owed.insert(key);
      if (text[begin] == '?') owed.erase(key);
    }
  }
  f.Reopen();
  std::set<std::string> found;
  while (std::optional<LeasedJob> job = f.LeaseNow({"build/cpu", "lane/cpu"}, absl::Hours(1))) {
    CHECK(job->payload.compare(0, job->key.size(), job->key) == 0);
    found.insert(job->key);
  }
  std::vector<std::string> lost;
  std::set_difference(owed.begin(), owed.end(), found.begin(), found.end(), std::back_inserter(lost));
  CHECK(lost == std::vector<std::string>{});
  CHECK(owed.size() > 200);
}

}  // namespace
}  // namespace hone::verifier
