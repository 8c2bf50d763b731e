#pragma once

// The time of day as a dependency that is handed in, for what is told to people; deadlines are SteadyTime's
// (base/steady_time.h). Fake: tests/support/fake_clock.h.

#include "absl/time/time.h"

namespace hone {

/// Thread-safe.
class Clock {
 public:
  virtual ~Clock() = default;
  virtual absl::Time Now() const = 0;
};

/// The machine's wall clock.
class RealClock final : public Clock {
 public:
  absl::Time Now() const override;
};

}  // namespace hone
