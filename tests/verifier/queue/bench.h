#pragma once

// A queue of either kind to test: the embedded one with a clock that only the test moves, and the farm's with a real
// redis-server, where what one process submits reaches another a moment later.

#include <atomic>
#include <catch2/catch_test_macros.hpp>
#include <memory>
#include <string>
#include <vector>

#include "absl/synchronization/mutex.h"
#include "absl/time/clock.h"
#include "base/steady_time.h"
#include "tests/support/memory_folder.h"
#include "tests/support/redis_server.h"
#include "verifier/queue/redis_queue.h"
#include "verifier/queue/sqlite_queue.h"

namespace hone::verifier {

inline const std::vector<std::string> kBuild = {"build/cpu"};

template <class Condition>
bool Eventually(Condition condition) {
  for (int i = 0; i < 5000; ++i) {
    if (condition()) return true;
    absl::SleepFor(absl::Milliseconds(1));
  }
  return false;
}

inline Submission Job(const std::string& key, Priority priority = Priority::kNormal) {
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

struct Limits {
  int64_t bytes = int64_t{1} << 30;
  absl::Duration retention = absl::Minutes(10);
};

struct EmbeddedQueue {
  TempFolder folder = MemoryFolder("queue_test");
  std::shared_ptr<std::atomic<int64_t>> now_ms = std::make_shared<std::atomic<int64_t>>(1'000'000'000);
  std::shared_ptr<std::atomic<int64_t>> set_ahead_s = std::make_shared<std::atomic<int64_t>>(0);  // the time of day only
  SqliteQueueOptions options;
  std::unique_ptr<Queue> queue;

  explicit EmbeddedQueue(const Limits& limits = {}) {
    options.path = folder.path() + "/queue.db";
    options.version = "test";
    options.limit_bytes = limits.bytes;
    options.retention = limits.retention;
    options.now = [now_ms = now_ms, ahead_s = set_ahead_s] {
      return absl::FromUnixMillis(*now_ms) + absl::Seconds(ahead_s->load());
    };
    options.steady_now = [now_ms = now_ms] { return SteadyTime() + absl::Milliseconds(now_ms->load()); };
    Reopen();
  }
  void Reopen() {
    queue.reset();
    auto opened = OpenSqliteQueue(options);
    INFO(opened.status().ToString());
    REQUIRE(opened.ok());
    queue = std::move(opened).value();
  }
  void Pass(absl::Duration time) { *now_ms += absl::ToInt64Milliseconds(time); }

  /// The queue as another process of its users has it: there is but one.
  std::shared_ptr<Queue> Elsewhere() { return std::shared_ptr<Queue>(queue.get(), [](Queue*) {}); }
  std::optional<LeasedJob> LeaseNow(const std::vector<std::string>& kinds = kBuild,
                                    absl::Duration duration = absl::Seconds(30)) const {
    auto leased = queue->Lease(kinds, duration, SteadyTime::InfinitePast());
    REQUIRE(leased.ok());
    return *leased;
  }
  std::optional<LeasedJob> LeaseSoon(const std::vector<std::string>& kinds = kBuild,
                                     absl::Duration duration = absl::Seconds(30), Queue* from = nullptr) const {
    return LeaseNow(kinds, duration);
  }
  bool Holds(int64_t waiting, const std::string& kind = "build/cpu") const {
    return queue->Stats().kinds[kind].waiting == waiting;
  }
  bool WaitFor(const std::string& key, int64_t processes) const { return true; }
};

struct FarmQueue {
  RedisServer redis;
  RedisQueueOptions options;
  std::unique_ptr<Queue> queue;
  int elsewhere = 0;

  explicit FarmQueue(const Limits& limits = {}) {
    options.address = *ParseRedisUrl(redis.url());
    options.version = "test";
    options.lost_after = absl::Milliseconds(400);
    options.limit_bytes = limits.bytes;
    options.retention = limits.retention;
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
  void Pass(absl::Duration time) { absl::SleepFor(time); }

  std::shared_ptr<Queue> Elsewhere() { return Open("elsewhere" + std::to_string(++elsewhere)); }
  std::optional<LeasedJob> LeaseNow(const std::vector<std::string>& kinds = kBuild) const {
    auto leased = queue->Lease(kinds, absl::Seconds(30), SteadyTime::InfinitePast());
    REQUIRE(leased.ok());
    return *leased;
  }
  /// Waits for the submissions that are on their way.
  std::optional<LeasedJob> LeaseSoon(const std::vector<std::string>& kinds = kBuild,
                                     absl::Duration duration = absl::Seconds(30), Queue* from = nullptr) const {
    auto leased = (from == nullptr ? *queue : *from).Lease(kinds, duration, SteadyTime::Now() + absl::Seconds(10));
    REQUIRE(leased.ok());
    return *leased;
  }
  bool Holds(int64_t waiting, const std::string& kind = "build/cpu") const {
    return Eventually([&] { return queue->Stats().kinds[kind].waiting == waiting; });
  }
  /// How many processes wait for a key, as Redis knows it.
  bool WaitFor(const std::string& key, int64_t processes) const {
    const auto redis_now = RedisConnection::Open(options.address);
    REQUIRE(redis_now.ok());
    return Eventually([&] { return (*redis_now)->Run({"HLEN", "{hone}:watch:" + key})->integer == processes; });
  }
};

}  // namespace hone::verifier
