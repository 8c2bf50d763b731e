// The embedded queue, beyond what queue_contract_test.cc promises of both: restarts, its file, its clocks.

#include "verifier/queue/sqlite_queue.h"

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <catch2/catch_test_macros.hpp>
#include <set>
#include <string>
#include <vector>

#include "base/file.h"
#include "base/steady_time.h"
#include "tests/verifier/queue/bench.h"

namespace hone::verifier {
namespace {

TEST_CASE("A retained result answers its key until the retention ends, also after a restart", "[verifier][queue]") {
  EmbeddedQueue f;
  Submission submission = Job("k");
  submission.retain = true;
  REQUIRE(f.queue->Submit(submission, nullptr).ok());
  REQUIRE(f.queue->Complete(*f.LeaseNow(), "kept").ok());
  f.Reopen();
  Heard heard;
  REQUIRE(f.queue->Submit(submission, heard.Listener()).ok());
  REQUIRE(heard.count() == 1);
  CHECK(heard.All().front().result == "kept");
  CHECK_FALSE(f.LeaseNow());
  f.Pass(absl::Seconds(601));
  REQUIRE(f.queue->Submit(submission, heard.Listener()).ok());
  CHECK(heard.count() == 1);
  CHECK(f.LeaseNow());
}

TEST_CASE("Setting the machine's clock ends no lease, and ages no job below nothing", "[verifier][queue]") {
  EmbeddedQueue f;
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
  f.Pass(absl::Seconds(31));
  CHECK(f.LeaseNow()->key == "held");
}

TEST_CASE("A lease that ends goes to another worker and the first one's report is refused", "[verifier][queue]") {
  EmbeddedQueue f;
  Heard heard;
  REQUIRE(f.queue->Submit(Job("k"), heard.Listener()).ok());
  std::optional<LeasedJob> slow = f.LeaseNow(kBuild, absl::Seconds(10));
  f.Pass(absl::Seconds(9));
  CHECK_FALSE(f.LeaseNow());
  SECTION("unless it was renewed") {
    REQUIRE(f.queue->Renew(*slow, absl::Seconds(10)).ok());
    f.Pass(absl::Seconds(9));
    CHECK_FALSE(f.LeaseNow());
    CHECK(f.queue->Complete(*slow, "r").ok());
  }
  SECTION("once its time is over") {
    f.Pass(absl::Seconds(1));
    std::optional<LeasedJob> second = f.LeaseNow();
    REQUIRE(second);
    CHECK(second->tries == 2);
    CHECK(absl::IsNotFound(f.queue->Complete(*slow, "late")));
    CHECK(absl::IsNotFound(f.queue->Renew(*slow, absl::Seconds(1))));
    CHECK(heard.count() == 0);
    REQUIRE(f.queue->Complete(*second, "r").ok());
    CHECK(heard.count() == 1);
  }
}

TEST_CASE("A released job comes back without having spent a try", "[verifier][queue]") {
  EmbeddedQueue f;
  REQUIRE(f.queue->Submit(Job("k"), nullptr).ok());
  for (int i = 0; i < 5; ++i) {
    CHECK(f.LeaseNow()->tries == 1);
    f.Pass(absl::Seconds(31));
    f.Reopen();  // counts a try
    std::optional<LeasedJob> job = f.LeaseNow();
    CHECK(job->tries == 2);
    REQUIRE(f.queue->Release(*job).ok());
    job = f.LeaseNow();
    CHECK(job->tries == 2);
    REQUIRE(f.queue->Advance(*job, "build/cpu", "").ok());
  }
}

TEST_CASE("A waiting job is dropped when the last of its submitters goes away", "[verifier][queue]") {
  EmbeddedQueue f;
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
  CHECK(heard.count() == 0);
}

TEST_CASE("A second process is told that the file is in use", "[verifier][queue]") {
  EmbeddedQueue f;
  const absl::Status status = OpenSqliteQueue(f.options).status();
  CHECK(absl::IsFailedPrecondition(status));
  CHECK(std::string(status.message()).find("another process") != std::string::npos);
}

TEST_CASE("A file of another version, or no queue at all, is refused and left as it is", "[verifier][queue]") {
  EmbeddedQueue f;
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
  EmbeddedQueue f;
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
  EmbeddedQueue f;
  REQUIRE(f.queue->Submit(Job("poison"), nullptr).ok());
  for (int i = 0; i < 3; ++i) {
    REQUIRE(f.LeaseNow());
    f.Reopen();
  }
  CHECK_FALSE(f.LeaseNow());
  CHECK(f.queue->DeadLetters(1)->size() == 1);
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
  EmbeddedQueue f;
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
