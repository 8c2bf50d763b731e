#include "tests/support/set_clock.h"

#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <atomic>

namespace {

std::atomic<int64_t> offset_s = 0;

}  // namespace

// In place of the C library's, for everything in this program.
extern "C" int clock_gettime(clockid_t clock, timespec* time) noexcept {
  const int status = static_cast<int>(syscall(SYS_clock_gettime, clock, time));
  if (status == 0 && clock == CLOCK_REALTIME) time->tv_sec += offset_s;
  return status;
}

namespace hone::testing {

SetClock::SetClock(absl::Duration by) { offset_s = absl::ToInt64Seconds(by); }
SetClock::~SetClock() { offset_s = 0; }

}  // namespace hone::testing
