// Preloaded into a service under test: every sync takes as long as on a busy disk.

#include <sys/syscall.h>
#include <unistd.h>

namespace {
constexpr useconds_t kSyncTime = 5'000;  // us
}

extern "C" int fsync(int fd) {
  usleep(kSyncTime);
  return static_cast<int>(syscall(SYS_fsync, fd));
}

extern "C" int fdatasync(int fd) {
  usleep(kSyncTime);
  return static_cast<int>(syscall(SYS_fdatasync, fd));
}
