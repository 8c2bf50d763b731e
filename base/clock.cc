#include "base/clock.h"

#include "absl/time/clock.h"

namespace hone {

absl::Time RealClock::Now() const { return absl::Now(); }
void RealClock::SleepUntil(absl::Time time) { absl::SleepFor(time - absl::Now()); }
bool RealClock::Await(absl::Mutex& mutex, const absl::Condition& condition, absl::Time deadline) {
  return mutex.AwaitWithDeadline(condition, deadline);
}

}  // namespace hone
