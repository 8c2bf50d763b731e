#pragma once

// The time that a candidate may take. Only waiting for its runner counts: a slow reference or a cold cache of sets costs a
// candidate nothing.

#include <algorithm>

#include "absl/time/clock.h"
#include "absl/time/time.h"

namespace hone::verifier {

class Budget {
 public:
  explicit Budget(absl::Duration total) : total_(total), left_(total) {}

  absl::Duration total() const { return total_; }
  absl::Duration left() const { return left_; }

  /// Runs `wait(deadline)` and charges the time it took.
  template <class Wait>
  auto Charge(Wait wait) {
    const absl::Time start = absl::Now();
    auto result = wait(start + left_);
    left_ = std::max(left_ - (absl::Now() - start), absl::ZeroDuration());
    return result;
  }

 private:
  absl::Duration total_;
  absl::Duration left_;
};

}  // namespace hone::verifier
