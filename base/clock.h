#pragma once

// Time as a dependency that is handed in, so that tests of time-outs need no waiting. Fake: tests/support/fake_clock.h.

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"

namespace hone {

/// Thread-safe.
class Clock {
 public:
  virtual ~Clock() = default;
  virtual absl::Time Now() const = 0;
  virtual void SleepUntil(absl::Time time) = 0;
  /// As absl::Mutex::AwaitWithDeadline, by this clock: true when `condition` became true, false at the deadline.
  virtual bool Await(absl::Mutex& mutex, const absl::Condition& condition, absl::Time deadline)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex) = 0;
};

/// The machine's wall clock.
class RealClock final : public Clock {
 public:
  absl::Time Now() const override;
  void SleepUntil(absl::Time time) override;
  bool Await(absl::Mutex& mutex, const absl::Condition& condition, absl::Time deadline) override;
};

}  // namespace hone
