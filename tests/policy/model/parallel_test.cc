#include "policy/model/parallel.h"

#include "tests/support/catch_torch.h"

#include <ATen/Parallel.h>

#include <atomic>
#include <mutex>
#include <set>
#include <thread>
#include <vector>

namespace hone::policy {
namespace {

// Sets torch's threads, and puts them back.
class Threads {
 public:
  explicit Threads(int count) : before_(at::get_num_threads()) { at::set_num_threads(count); }
  ~Threads() { at::set_num_threads(before_); }

 private:
  int before_;
};

TEST_CASE("A loop visits every index once, in parts no smaller than asked, whatever the threads", "[policy][parallel]") {
  for (const int threads : {1, 2, 5}) {
    const Threads set(threads);
    for (const int64_t count : {0, 1, 2, 7, 64, 1000}) {
      for (const int64_t grain : {0, 1, 3, 2000}) {
        std::vector<std::atomic<int>> visits(count);
        std::atomic<int> small{0};
        ParallelFor(100, 100 + count, grain, [&](int64_t from, int64_t to) {
          if (to - from < grain && to != 100 + count) ++small;
          for (int64_t i = from; i < to; ++i) ++visits[i - 100];
        });
        for (const std::atomic<int>& visit : visits) CHECK(visit == 1);
        CHECK(small == 0);
      }
    }
  }
}

TEST_CASE("Parts run at the same time on as many threads as torch has", "[policy][parallel]") {
  const Threads set(3);
  std::atomic<int> inside{0};
  std::mutex mutex;
  std::set<std::thread::id> seen;
  ParallelFor(0, 3, 1, [&](int64_t, int64_t) {
    ++inside;
    while (inside < 3) std::this_thread::yield();  // each waits for the other two
    const std::lock_guard<std::mutex> lock(mutex);
    seen.insert(std::this_thread::get_id());
  });
  CHECK(seen.size() == 3);
}

TEST_CASE("What a part throws reaches the caller after the others are done, and the next loop runs", "[policy][parallel]") {
  const Threads set(2);
  for (int round = 0; round < 20; ++round) {
    std::atomic<int> done{0};
    CHECK_THROWS_AS(ParallelFor(0, 8, 1,
                                [&](int64_t from, int64_t) {
                                  if (from == 3) throw std::runtime_error("part 3");
                                  ++done;
                                }),
                    std::runtime_error);
    CHECK(done == 7);
  }
}

TEST_CASE("A loop within a loop, and one of a second thread, run on their own thread", "[policy][parallel]") {
  const Threads set(2);
  std::atomic<int> visits{0}, strange{0};
  const auto work = [&] {
    for (int round = 0; round < 200; ++round) {
      ParallelFor(0, 6, 1, [&](int64_t from, int64_t to) {
        const std::thread::id own = std::this_thread::get_id();
        ParallelFor(0, 10, 1, [&](int64_t inner_from, int64_t inner_to) {
          strange += std::this_thread::get_id() != own;
          visits += static_cast<int>((inner_to - inner_from) * (to > from ? 1 : 0));
        });
        visits += static_cast<int>(to - from - 1) * 10;
      });
    }
  };
  std::thread second(work);
  work();
  second.join();
  CHECK(visits == 2 * 200 * 6 * 10);
  CHECK(strange == 0);
}

}  // namespace
}  // namespace hone::policy
