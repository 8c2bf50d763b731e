#include "base/clock.h"

#include "absl/time/clock.h"

namespace hone {

absl::Time RealClock::Now() const { return absl::Now(); }

}  // namespace hone
