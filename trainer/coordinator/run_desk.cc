#include "trainer/coordinator/run_desk.h"

#include <utility>

namespace hone::trainer {

void RunDesk::Seen(const std::string& worker) {
  absl::MutexLock lock(&mutex_);
  seen_[worker] = SteadyTime::Now();
}

void RunDesk::Left(const std::string& worker) {
  absl::MutexLock lock(&mutex_);
  seen_.erase(worker);
}

std::optional<WeightGrant> RunDesk::Await(const WeightWish& wish, SteadyTime deadline) {
  absl::MutexLock lock(&mutex_);
  waiting_[wish.worker] = {wish, std::nullopt};
  const auto granted = [&]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    const auto found = waiting_.find(wish.worker);
    return found == waiting_.end() || found->second.grant.has_value();
  };
  AwaitUntil(mutex_, absl::Condition(&granted), deadline);
  const auto found = waiting_.find(wish.worker);
  if (found == waiting_.end()) return std::nullopt;  // another call in the worker's name has taken it
  std::optional<WeightGrant> grant = std::move(found->second.grant);
  waiting_.erase(found);
  return grant;
}

int64_t RunDesk::ready_version() const {
  absl::MutexLock lock(&mutex_);
  return ready_version_;
}

void RunDesk::AddSeconds(const WorkSeconds& seconds) {
  absl::MutexLock lock(&mutex_);
  seconds_.generate += seconds.generate;
  seconds_.verify += seconds.verify;
}

std::vector<std::string> RunDesk::Alive() const {
  absl::MutexLock lock(&mutex_);
  std::vector<std::string> alive;
  const SteadyTime now = SteadyTime::Now();
  for (const auto& [worker, seen] : seen_) {
    if (now - seen <= silence_) alive.push_back(worker);
  }
  return alive;
}

std::vector<WeightWish> RunDesk::Waiting() const {
  absl::MutexLock lock(&mutex_);
  std::vector<WeightWish> wishes;
  for (const auto& [worker, waiter] : waiting_) {
    if (!waiter.grant) wishes.push_back(waiter.wish);
  }
  return wishes;
}

bool RunDesk::Grant(const std::string& worker, const WeightGrant& grant) {
  absl::MutexLock lock(&mutex_);
  const auto found = waiting_.find(worker);
  if (found == waiting_.end() || found->second.grant) return false;
  found->second.grant = grant;
  return true;
}

void RunDesk::SetReady(int64_t version) {
  absl::MutexLock lock(&mutex_);
  ready_version_ = version;
}

WorkSeconds RunDesk::TakeSeconds() {
  absl::MutexLock lock(&mutex_);
  return std::exchange(seconds_, {});
}

}  // namespace hone::trainer
