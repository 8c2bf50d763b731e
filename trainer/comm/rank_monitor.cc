#include "trainer/comm/rank_monitor.h"

#include "absl/strings/str_cat.h"
#include "base/steady_time.h"
#include "cmake/torch_pch.h"

#include <torch/csrc/distributed/c10d/Store.hpp>

namespace hone::trainer {
namespace {

std::string Alive(int rank) { return absl::StrCat("hone/alive/", rank); }
constexpr char kDead[] = "hone/dead";
std::string Gone(int rank) { return absl::StrCat("hone/gone/", rank); }

}  // namespace

RankMonitor::RankMonitor(std::shared_ptr<c10d::Store> store, int rank, int size, absl::Duration heartbeat,
                         absl::Duration dead_after, std::function<void(const std::string& message)> on_dead)
    : store_(std::move(store)),
      rank_(rank),
      size_(size),
      heartbeat_(heartbeat),
      dead_after_(dead_after),
      on_dead_(std::move(on_dead)),
      seen_(size, Seen{-1, SteadyTime::Now()}),
      thread_([this] { Run(); }) {}

RankMonitor::~RankMonitor() {
  {
    std::lock_guard lock(mutex_);
    stop_ = true;
  }
  wake_.notify_all();
  thread_.join();
}

void RankMonitor::Announce(const std::string& message) {
  {
    std::lock_guard lock(mutex_);
    if (announced_.empty()) announced_ = message;
  }
  wake_.notify_all();
}

std::string RankMonitor::DeadRank() {
  const SteadyTime now = SteadyTime::Now();
  for (int other = 0; other < size_; ++other) {
    Seen& seen = seen_[other];
    const int64_t beats = store_->add(Alive(other), 0);
    if (beats != seen.beats) seen = {beats, now};
    if (other == rank_ || now - seen.since < dead_after_ || store_->add(Gone(other), 0) > 0) continue;
    return absl::StrCat("rank ", other, " has not been heard of for ",
                        absl::FormatDuration(absl::Trunc(now - seen.since, absl::Seconds(1))), " (after ", beats,
                        " signs of life)");
  }
  return "";
}

std::string RankMonitor::Told() {
  if (!store_->check({kDead})) return "";
  const std::vector<uint8_t> message = store_->get(kDead);
  return std::string(message.begin(), message.end());
}

std::string StoreIsGone(const std::string& error) {
  return absl::StrCat("the ranks' store cannot be reached, so rank 0 or its host is gone: ",
                      error.substr(0, std::min<size_t>(error.find('\n'), 160)));
}

void RankMonitor::Run() {
  std::string dead;
  const auto tell = [&](const std::string& message) {
    store_->set(kDead, std::vector<uint8_t>(message.begin(), message.end()));
  };
  std::unique_lock lock(mutex_);
  while (!stop_ && dead.empty() && announced_.empty()) {
    lock.unlock();
    try {
      store_->add(Alive(rank_), 1);
      dead = Told();
      if (dead.empty() && !(dead = DeadRank()).empty()) tell(dead);
    } catch (const std::exception& error) {
      dead = StoreIsGone(error.what());
    }
    lock.lock();
    if (!stop_ && dead.empty() && announced_.empty()) wake_.wait_for(lock, absl::ToChronoMilliseconds(heartbeat_));
  }
  if (dead.empty()) {
    try {
      announced_.empty() ? void(store_->add(Gone(rank_), 1)) : tell(announced_);
    } catch (const std::exception&) {  // nobody is left to be told
    }
    return;
  }
  lock.unlock();
  on_dead_(dead);
}

}  // namespace hone::trainer
