#pragma once

// A clock that stands still until a test moves it.

#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "base/clock.h"

namespace hone::testing {

/// Thread-safe. Waiters notice a move within a millisecond of real time.
class FakeClock final : public Clock {
 public:
  explicit FakeClock(absl::Time now = absl::FromUnixSeconds(1'700'000'000)) : now_(now) {}

  void Advance(absl::Duration by) {
    absl::MutexLock lock(&mutex_);
    now_ += by;
  }
  absl::Time Now() const override {
    absl::MutexLock lock(&mutex_);
    return now_;
  }
  /// Sleeps until some other thread has advanced the clock that far.
  void SleepUntil(absl::Time time) override {
    absl::MutexLock lock(&mutex_);
    const auto reached = [&] { return now_ >= time; };
    mutex_.Await(absl::Condition(&reached));
  }
  bool Await(absl::Mutex& mutex, const absl::Condition& condition, absl::Time deadline) override {
    while (true) {
      if (mutex.AwaitWithTimeout(condition, absl::Milliseconds(1))) return true;
      if (Now() >= deadline) return false;
    }
  }

 private:
  mutable absl::Mutex mutex_;
  absl::Time now_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace hone::testing
