#include "base/steady_time.h"

#include <atomic>
#include <condition_variable>
#include <map>
#include <mutex>
#include <thread>

namespace hone {
namespace {

/// Wakes threads that wait for a condition of an absl::Mutex, when their time has come. Its thread lives as long as the
/// process: a wait then costs no thread of its own.
class Alarm {
 public:
  struct Bell {
    absl::Mutex& mutex;
    std::atomic<bool> rung = false;
    bool set = false;  // guarded by the alarm's mutex, as `place`
    std::multimap<SteadyTime, Bell*>::iterator place = {};
  };

  static Alarm& Get() {
    static Alarm* const alarm = new Alarm;
    return *alarm;
  }

  void Set(Bell& bell, SteadyTime time) {
    std::lock_guard lock(mutex_);
    Place(bell, time);
    if (bell.place == bells_.begin()) changed_.notify_one();
  }

  /// Afterwards the alarm knows nothing of the bell or of its mutex.
  void Remove(Bell& bell) {
    std::lock_guard lock(mutex_);
    if (bell.set) bells_.erase(bell.place);
  }

 private:
  Alarm() {
    std::thread([this] { Loop(); }).detach();
  }

  void Place(Bell& bell, SteadyTime time) {
    bell.place = bells_.emplace(time, &bell);
    bell.set = true;
  }

  void Loop() {
    std::unique_lock lock(mutex_);
    while (true) {
      if (bells_.empty()) {
        changed_.wait(lock);
      } else if (const SteadyTime first = bells_.begin()->first; SteadyTime::Now() < first) {
        changed_.wait_until(lock, first.ToChrono());
      } else {
        Ring(*bells_.begin()->second);
      }
    }
  }

  /// Whoever releases a mutex looks at the conditions of those who wait for it. Who holds it now may have looked already,
  /// and is not waited for: the bell rings again until it is heard.
  void Ring(Bell& bell) {
    bell.rung = true;
    bells_.erase(bell.place);
    bell.set = false;
    if (bell.mutex.TryLock()) {
      bell.mutex.Unlock();
    } else {
      Place(bell, SteadyTime::Now() + absl::Milliseconds(1));
    }
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  std::multimap<SteadyTime, Bell*> bells_;
};

}  // namespace

SteadyTime SteadyTime::Now() { return SteadyTime(absl::FromChrono(std::chrono::steady_clock::now().time_since_epoch())); }

std::chrono::steady_clock::time_point SteadyTime::ToChrono() const {
  return std::chrono::steady_clock::time_point(absl::ToChronoNanoseconds(since_zero_));
}

bool AwaitUntil(absl::Mutex& mutex, const absl::Condition& condition, SteadyTime deadline) {
  if (condition.Eval()) return true;
  if (deadline == SteadyTime::InfiniteFuture()) {
    mutex.Await(condition);
    return true;
  }
  if (deadline <= SteadyTime::Now()) return false;
  Alarm::Bell bell{mutex};
  Alarm::Get().Set(bell, deadline);
  const auto over = [&] { return bell.rung || condition.Eval(); };
  mutex.Await(absl::Condition(&over));
  Alarm::Get().Remove(bell);
  return condition.Eval();
}

bool AwaitFor(absl::Mutex& mutex, const absl::Condition& condition, absl::Duration duration) {
  return AwaitUntil(mutex, condition, SteadyTime::Now() + duration);
}

}  // namespace hone
