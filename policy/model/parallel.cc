#include "policy/model/parallel.h"

#include <ATen/Parallel.h>
#include <c10/util/ParallelGuard.h>

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <exception>
#include <mutex>
#include <thread>
#include <vector>

namespace hone::policy {
namespace {

// A loop cut into parts, which threads take one after the other.
struct Loop {
  int64_t begin, end, size, parts;
  const std::function<void(int64_t, int64_t)>& body;
  std::atomic<int64_t> next{0};
  std::mutex mutex;
  std::exception_ptr failure;  // guarded by mutex

  void TakeParts() {
    c10::ParallelGuard within(true);
    for (int64_t part; (part = next.fetch_add(1)) < parts;) {
      try {
        body(begin + part * size, std::min(end, begin + (part + 1) * size));
      } catch (...) {
        std::lock_guard<std::mutex> lock(mutex);
        if (failure == nullptr) failure = std::current_exception();
      }
    }
  }
};

class Helpers {
 public:
  ~Helpers() {
    {
      std::lock_guard<std::mutex> lock(mutex_);
      ended_ = true;
    }
    wake_.notify_all();
    for (std::thread& thread : threads_) thread.join();
  }

  /// False when another thread's loop is running.
  bool Run(Loop& loop, int helpers) {
    const std::unique_lock<std::mutex> alone(running_, std::try_to_lock);
    if (!alone.owns_lock()) return false;
    while (static_cast<int>(threads_.size()) < helpers) threads_.emplace_back([this] { Help(); });
    {
      std::lock_guard<std::mutex> lock(mutex_);
      loop_ = &loop;
      places_ = helpers;
      ++loops_;
    }
    wake_.notify_all();
    loop.TakeParts();
    std::unique_lock<std::mutex> lock(mutex_);
    loop_ = nullptr;  // who wakes up only now has come too late
    left_.wait(lock, [&] { return inside_ == 0; });
    return true;
  }

 private:
  void Help() {
    std::unique_lock<std::mutex> lock(mutex_);
    for (uint64_t seen = 0;;) {
      if (!ended_ && loops_ == seen) {  // the next loop often comes at once: falling asleep would cost more than it takes
        lock.unlock();
        for (int spin = 0; spin < kSpins && loops_ == seen; ++spin) Pause();
        lock.lock();
      }
      wake_.wait(lock, [&] { return ended_ || loops_ != seen; });
      if (ended_) return;
      seen = loops_;
      if (loop_ == nullptr || places_ == 0) continue;
      Loop& loop = *loop_;
      --places_;
      ++inside_;
      lock.unlock();
      loop.TakeParts();
      lock.lock();
      if (--inside_ == 0) left_.notify_one();
    }
  }
  static void Pause() {
#if defined(__x86_64__)
    __builtin_ia32_pause();
#endif
  }
  static constexpr int kSpins = 1000;

  std::mutex running_;  // held by the thread whose loop it is
  std::vector<std::thread> threads_;
  std::mutex mutex_;
  std::condition_variable wake_, left_;
  std::atomic<uint64_t> loops_{0};  // the rest is guarded by mutex_
  Loop* loop_ = nullptr;
  int places_ = 0, inside_ = 0;
  bool ended_ = false;
};

constexpr int64_t kPartsPerThread = 4;  // so that a thread that is held up does not hold up the loop

}  // namespace

void ParallelFor(int64_t begin, int64_t end, int64_t grain, const std::function<void(int64_t, int64_t)>& body) {
  if (begin >= end) return;
  const int64_t count = end - begin, most = count / std::max<int64_t>(1, grain);
  const int threads = at::in_parallel_region() ? 1 : at::get_num_threads();
  const int64_t parts = std::min<int64_t>(most, threads * kPartsPerThread);
  if (threads > 1 && parts > 1) {
    const int64_t size = (count + parts - 1) / parts;
    Loop loop{begin, end, size, (count + size - 1) / size, body};
    static Helpers helpers;
    if (helpers.Run(loop, static_cast<int>(std::min<int64_t>(threads, loop.parts)) - 1)) {
      if (loop.failure != nullptr) std::rethrow_exception(loop.failure);
      return;
    }
  }
  c10::ParallelGuard within(true);
  body(begin, end);
}

}  // namespace hone::policy
