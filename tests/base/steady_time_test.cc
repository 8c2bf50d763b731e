#include "base/steady_time.h"

#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <atomic>
#include <memory>
#include <thread>
#include <vector>

#include "absl/time/clock.h"
#include "base/subprocess.h"
#include "tests/support/set_clock.h"

namespace hone {
namespace {

using testing::SetClock;

// Far more than any of these tests may take: who waits this long, waits by the wrong clock.
constexpr absl::Duration kAmple = absl::Minutes(10);

/// Sets the clock while the scope runs, a moment after its beginning.
class ClockSetMeanwhile {
 public:
  explicit ClockSetMeanwhile(absl::Duration by)
      : thread_([this, by] {
          absl::SleepFor(absl::Milliseconds(50));
          SetClock set(by);
          while (!over_) absl::SleepFor(absl::Milliseconds(1));
        }) {}
  ~ClockSetMeanwhile() {
    over_ = true;
    thread_.join();
  }

 private:
  std::atomic<bool> over_ = false;
  std::thread thread_;
};

TEST_CASE("The tests' own clock is set: the time of day follows, steady time does not", "[base][clock]") {
  const absl::Time day = absl::Now();
  const SteadyTime steady = SteadyTime::Now();
  const SetClock set(absl::Hours(2));
  CHECK(absl::Now() - day > absl::Hours(1));
  CHECK(SteadyTime::Now() - steady < kAmple);
}

TEST_CASE("A steady deadline is before or after its neighbours, the infinite ones included", "[base][clock]") {
  const SteadyTime now = SteadyTime::Now();
  CHECK(SteadyTime::InfinitePast() < now);
  CHECK(now < now + absl::Nanoseconds(1));
  CHECK(now < SteadyTime::InfiniteFuture());
  CHECK(now + absl::InfiniteDuration() == SteadyTime::InfiniteFuture());
  CHECK(SteadyTime::InfiniteFuture() - now == absl::InfiniteDuration());
  CHECK((now + absl::Seconds(3)) - now == absl::Seconds(3));
}

TEST_CASE("A wait for what never comes ends at its deadline, whatever the clock is set to", "[base][clock]") {
  const absl::Duration by = GENERATE(absl::ZeroDuration(), absl::Hours(1), -absl::Hours(1));
  const SetClock set(by);
  absl::Mutex mutex;
  bool never = false;
  absl::MutexLock lock(&mutex);
  const SteadyTime start = SteadyTime::Now();
  CHECK_FALSE(AwaitFor(mutex, absl::Condition(&never), absl::Milliseconds(30)));
  CHECK(SteadyTime::Now() - start >= absl::Milliseconds(30));
  CHECK(SteadyTime::Now() - start < kAmple);
  CHECK_FALSE(AwaitUntil(mutex, absl::Condition(&never), SteadyTime::InfinitePast()));
}

TEST_CASE("A wait ends when its condition comes true, whatever the clock is set to", "[base][clock]") {
  const absl::Duration by = GENERATE(absl::ZeroDuration(), absl::Hours(1), -absl::Hours(1));
  const SetClock set(by);
  absl::Mutex mutex;
  bool come = false;
  std::thread other([&] {
    absl::SleepFor(absl::Milliseconds(30));
    absl::MutexLock lock(&mutex);
    come = true;
  });
  {
    absl::MutexLock lock(&mutex);
    CHECK(AwaitFor(mutex, absl::Condition(&come), kAmple));
    CHECK(AwaitUntil(mutex, absl::Condition(&come), SteadyTime::InfiniteFuture()));
  }
  other.join();
}

TEST_CASE("A deadline passes though the mutex is held at that moment", "[base][clock]") {
  absl::Mutex mutex;
  bool never = false;
  std::atomic<bool> over = false;
  std::thread busy([&] {
    while (!over) {
      absl::MutexLock lock(&mutex);
      absl::SleepFor(absl::Milliseconds(5));
    }
  });
  {
    absl::MutexLock lock(&mutex);
    CHECK_FALSE(AwaitFor(mutex, absl::Condition(&never), absl::Milliseconds(20)));
  }
  over = true;
  busy.join();
}

TEST_CASE("A mutex may go as soon as a wait on it has ended", "[base][clock]") {
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([t] {
      for (int i = 0; i < 200; ++i) {
        const auto mutex = std::make_unique<absl::Mutex>();
        bool never = false;
        absl::MutexLock lock(mutex.get());
        AwaitFor(*mutex, absl::Condition(&never), absl::Microseconds(37 * ((i + t) % 7)));
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
}

TEST_CASE("A child lives out its time though the clock is set ahead", "[base][clock]") {
  const ClockSetMeanwhile set(absl::Hours(1));
  const absl::StatusOr<RunResult> run = Run({.argv = {"sleep", "0.3"}}, kAmple);
  REQUIRE(run.ok());
  CHECK_FALSE(run->timed_out);
  CHECK(run->seconds < absl::ToDoubleSeconds(kAmple));
}

TEST_CASE("A child is killed at its time limit though the clock is set back", "[base][clock]") {
  const ClockSetMeanwhile set(-absl::Hours(1));
  const absl::StatusOr<RunResult> run = Run({.argv = {"sleep", "600"}}, absl::Milliseconds(300));
  REQUIRE(run.ok());
  CHECK(run->timed_out);
  CHECK(run->seconds >= 0.3);
}

}  // namespace
}  // namespace hone
