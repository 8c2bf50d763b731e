#pragma once

// One core for all that takes turns in a timed phase. A message between processes on two cores wakes an idle core, which
// costs four times as much as a switch on the same one, and is charged to the runner in a changing part.

#include <sched.h>
#include <sys/types.h>

namespace hone::verifier {

/// Binds the calling thread to a core and, at the end of its life, restores what was.
class ScopedCore {
 public:
  /// `core` -1: the one the thread is on.
  explicit ScopedCore(int core) : core_(core >= 0 ? core : sched_getcpu()) {
    restore_ = core_ >= 0 && sched_getaffinity(0, sizeof before_, &before_) == 0 && Bind(0);
  }
  ~ScopedCore() {
    if (restore_) sched_setaffinity(0, sizeof before_, &before_);
  }
  ScopedCore(const ScopedCore&) = delete;

  /// Binds another process (its main thread) as well. False where that is not allowed: it then stays where it is.
  bool Bind(pid_t process) const {
    cpu_set_t one;
    CPU_ZERO(&one);
    if (core_ < 0 || core_ >= CPU_SETSIZE) return false;
    CPU_SET(core_, &one);
    return sched_setaffinity(process, sizeof one, &one) == 0;
  }

 private:
  int core_;
  cpu_set_t before_;
  bool restore_ = false;
};

}  // namespace hone::verifier
