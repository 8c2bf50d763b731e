#pragma once

// Knows which ranks live: each adds to its own counter in the store, and reads the others'. A process that was killed,
// hangs in the kernel, or whose host is gone stops adding; so is a store that cannot be reached (rank 0, or its host).

#include <atomic>
#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>

#include "absl/time/time.h"
#include "base/steady_time.h"

namespace c10d {
class Store;
}

namespace hone::trainer {

/// The message for a store that does not answer, with the first line of its own words.
std::string StoreIsGone(const std::string& error);

class RankMonitor {
 public:
  /// `store` is the monitor's own connection (Store::clone). `on_dead` is called once, from the monitor's thread.
  RankMonitor(std::shared_ptr<c10d::Store> store, int rank, int size, absl::Duration heartbeat,
              absl::Duration dead_after, std::function<void(const std::string& message)> on_dead);
  /// Says goodbye in the store, so that a rank that ended as planned is not taken for dead.
  ~RankMonitor();

  /// Tells the other ranks, whose `on_dead` is called with it, and ends the watch here. From any thread; the first
  /// counts.
  void Announce(const std::string& message);

 private:
  void Run();
  std::string DeadRank();  // empty: all live
  std::string Told();      // what another rank has found out; empty: nothing

  std::shared_ptr<c10d::Store> store_;
  const int rank_, size_;
  const absl::Duration heartbeat_, dead_after_;
  std::function<void(const std::string&)> on_dead_;
  std::mutex mutex_;
  std::condition_variable wake_;
  bool stop_ = false;
  std::string announced_;
  struct Seen {
    int64_t beats = -1;
    SteadyTime since;
  };
  std::vector<Seen> seen_;
  std::thread thread_;
};

}  // namespace hone::trainer
