// Preloaded into a service under test: the time of day is off by what the file $HONE_CLOCK_OFFSET holds, a number of seconds
// as an int64_t, and changes when that does. The steady clock goes on.

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

#include <cstdint>
#include <cstdlib>

namespace {

const volatile int64_t* MapOffset() {
  const char* path = getenv("HONE_CLOCK_OFFSET");
  const int fd = path != nullptr ? open(path, O_RDONLY | O_CLOEXEC) : -1;
  if (fd < 0) return nullptr;
  void* mapped = mmap(nullptr, sizeof(int64_t), PROT_READ, MAP_SHARED, fd, 0);
  close(fd);
  return mapped != MAP_FAILED ? static_cast<const volatile int64_t*>(mapped) : nullptr;
}

int64_t Offset() {
  static const volatile int64_t* const offset = MapOffset();
  return offset != nullptr ? *offset : 0;
}

}  // namespace

extern "C" int clock_gettime(clockid_t clock, timespec* time) noexcept {
  const int status = static_cast<int>(syscall(SYS_clock_gettime, clock, time));
  if (status == 0 && (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE)) time->tv_sec += Offset();
  return status;
}

extern "C" int gettimeofday(timeval* time, void* zone) noexcept {
  const int status = static_cast<int>(syscall(SYS_gettimeofday, time, zone));
  if (status == 0 && time != nullptr) time->tv_sec += Offset();
  return status;
}

extern "C" time_t time(time_t* out) noexcept {
  timespec now = {};
  clock_gettime(CLOCK_REALTIME, &now);
  if (out != nullptr) *out = now.tv_sec;
  return now.tv_sec;
}
