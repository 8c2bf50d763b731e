#pragma once

// Time that only goes forward. Every deadline and every duration is measured on it; a time of day (absl::Time) is for
// telling people and for what outlives the process. The two are different types on purpose: a deadline made from the time
// of day does not compile. When somebody sets the machine's clock, nothing is killed early and nothing waits longer.
//
// Abseil's own waits with a time-out (Mutex::AwaitWithTimeout, CondVar::WaitWithDeadline, Notification) go by the time of
// day as distributions build them: AwaitUntil is the one to use. absl::SleepFor is relative and safe.

#include <chrono>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"

namespace hone {

/// A point of CLOCK_MONOTONIC, of this process and of no other. Arithmetic saturates as absl::Duration's does.
class SteadyTime {
 public:
  /// Some point in the past.
  constexpr SteadyTime() = default;
  static SteadyTime Now();
  static constexpr SteadyTime InfiniteFuture() { return SteadyTime(absl::InfiniteDuration()); }
  static constexpr SteadyTime InfinitePast() { return SteadyTime(-absl::InfiniteDuration()); }

  friend SteadyTime operator+(SteadyTime time, absl::Duration by) { return SteadyTime(time.since_zero_ + by); }
  friend SteadyTime operator-(SteadyTime time, absl::Duration by) { return SteadyTime(time.since_zero_ - by); }
  friend absl::Duration operator-(SteadyTime a, SteadyTime b) { return a.since_zero_ - b.since_zero_; }
  SteadyTime& operator+=(absl::Duration by) { return *this = *this + by; }
  friend constexpr bool operator==(SteadyTime a, SteadyTime b) { return a.since_zero_ == b.since_zero_; }
  friend constexpr bool operator!=(SteadyTime a, SteadyTime b) { return a.since_zero_ != b.since_zero_; }
  friend constexpr bool operator<(SteadyTime a, SteadyTime b) { return a.since_zero_ < b.since_zero_; }
  friend constexpr bool operator>(SteadyTime a, SteadyTime b) { return b < a; }
  friend constexpr bool operator<=(SteadyTime a, SteadyTime b) { return !(b < a); }
  friend constexpr bool operator>=(SteadyTime a, SteadyTime b) { return !(a < b); }

  /// Of a finite time, for the standard library's waits.
  std::chrono::steady_clock::time_point ToChrono() const;

 private:
  constexpr explicit SteadyTime(absl::Duration since_zero) : since_zero_(since_zero) {}
  absl::Duration since_zero_;
};

/// As absl::Mutex::AwaitWithDeadline, by the steady clock: waits, with `mutex` released meanwhile, until `condition` holds
/// or the deadline has passed. Whether `condition` holds.
bool AwaitUntil(absl::Mutex& mutex, const absl::Condition& condition, SteadyTime deadline)
    ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex);
bool AwaitFor(absl::Mutex& mutex, const absl::Condition& condition, absl::Duration duration)
    ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex);

}  // namespace hone
