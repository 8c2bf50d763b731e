#pragma once

// One core for all that takes turns in a timed phase. A message between processes on two cores wakes an idle core, which
// costs four times as much as a switch on the same one, and is charged to the runner in a changing part.

#include <sched.h>
#include <sys/types.h>

#include <algorithm>
#include <vector>

namespace hone::verifier {

/// The cores that the calling thread may use, ascending; at least one.
inline std::vector<int> AllowedCores() {
  cpu_set_t set;
  CPU_ZERO(&set);
  std::vector<int> cores;
  if (sched_getaffinity(0, sizeof set, &set) == 0) {
    for (int core = 0; core < CPU_SETSIZE; ++core) {
      if (CPU_ISSET(core, &set)) cores.push_back(core);
    }
  }
  return cores.empty() ? std::vector<int>{0} : cores;
}

/// The core of each of `lanes` lanes on `cores`, so that no two of a process time on one core. A lane alone goes where the
/// scheduler puts it: -1. Several go round the cores from `here`, where this process runs, so that independent processes
/// seldom begin with the same one. More lanes than cores share.
inline std::vector<int> LaneCores(int lanes, const std::vector<int>& cores, int here) {
  if (lanes == 1) return {-1};
  const auto first = std::find(cores.begin(), cores.end(), here);
  const size_t begin = first == cores.end() ? 0 : static_cast<size_t>(first - cores.begin());
  std::vector<int> chosen;
  for (int lane = 0; lane < lanes; ++lane) chosen.push_back(cores[(begin + static_cast<size_t>(lane)) % cores.size()]);
  return chosen;
}

/// Which cores are for what is timed on GPUs, and which for compilers, screens and the rest: a judge that looks for an answer
/// and finds its core taken sees a slow candidate.
struct CoreShares {
  std::vector<std::vector<int>> lanes;  // [gpus]
  std::vector<int> others;
};

/// Three cores a GPU: its judge waits awake, candidate and reference take turns, and the driver has threads of its own. Where
/// that is more than half of them, one half for all GPUs together. They are the last ones, because the first serve interrupts.
/// Fewer than four cores are everybody's: nothing is bound.
inline CoreShares ShareCores(size_t gpus, const std::vector<int>& cores) {
  constexpr size_t kOfLane = 3, kFew = 4;
  CoreShares shares;
  shares.lanes.resize(gpus);
  if (gpus == 0 || cores.size() < kFew) return shares;
  const size_t half = cores.size() / 2;
  const bool apart = gpus * kOfLane <= half;
  const size_t first = cores.size() - (apart ? gpus * kOfLane : half);
  for (size_t gpu = 0; gpu < gpus; ++gpu) {
    const auto begin = cores.begin() + static_cast<std::ptrdiff_t>(first + (apart ? gpu * kOfLane : 0));
    shares.lanes[gpu].assign(begin, begin + static_cast<std::ptrdiff_t>(apart ? kOfLane : half));
  }
  shares.others.assign(cores.begin(), cores.begin() + static_cast<std::ptrdiff_t>(first));
  return shares;
}

/// Keeps the calling thread, and what it starts, to some cores and, at the end of its life, restores what was.
class ScopedCores {
 public:
  /// `cores` empty: all that it has.
  explicit ScopedCores(const std::vector<int>& cores) {
    cpu_set_t set;
    CPU_ZERO(&set);
    for (const int core : cores) CPU_SET(static_cast<size_t>(core), &set);
    restore_ = !cores.empty() && sched_getaffinity(0, sizeof before_, &before_) == 0 &&
               sched_setaffinity(0, sizeof set, &set) == 0;
  }
  ~ScopedCores() {
    if (restore_) sched_setaffinity(0, sizeof before_, &before_);
  }
  ScopedCores(const ScopedCores&) = delete;

 private:
  cpu_set_t before_;
  bool restore_ = false;
};

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
