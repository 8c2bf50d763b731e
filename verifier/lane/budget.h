#pragma once

// The time that a candidate may take. Only waiting for its runner counts: a slow reference or a cold cache of sets costs a
// candidate nothing.

#include <algorithm>

#include "absl/cleanup/cleanup.h"
#include "absl/time/time.h"
#include "base/steady_time.h"

namespace hone::verifier {

class Budget {
 public:
  explicit Budget(absl::Duration total) : total_(total), left_(total) {}

  absl::Duration total() const { return total_; }
  absl::Duration left() const { return left_; }

  /// Runs `wait(deadline)` and charges the time it took.
  template <class Wait>
  auto Charge(Wait wait) {
    const SteadyTime start = SteadyTime::Now();
    auto result = wait(start + left_);
    left_ = std::max(left_ - (SteadyTime::Now() - start), absl::ZeroDuration());
    return result;
  }

  /// Counts the time until the result is dropped as the trials' own work: making, staging and comparing sets, calls of the
  /// candidate and of its baselines. What a lane takes beyond is its overhead.
  auto CountWork() {
    return absl::MakeCleanup([this, start = SteadyTime::Now()] { work_ += SteadyTime::Now() - start; });
  }
  absl::Duration work() const { return work_; }

 private:
  absl::Duration total_;
  absl::Duration left_;
  absl::Duration work_;
};

}  // namespace hone::verifier
