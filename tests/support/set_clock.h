#pragma once

// Sets the time of day, for the calling process alone: the program that links set_clock.cc reads CLOCK_REALTIME with an
// offset. The kernel knows nothing of it, so that a wait up to an absolute time of day is wrong by the offset too, as it is
// when the machine's clock is set during the wait.

#include "absl/time/time.h"

namespace hone::testing {

/// The clock is set by `by`, ahead or back, until the end of the scope. Thread-safe; one at a time.
class SetClock {
 public:
  explicit SetClock(absl::Duration by);
  ~SetClock();
  SetClock(const SetClock&) = delete;
  SetClock& operator=(const SetClock&) = delete;
};

}  // namespace hone::testing
