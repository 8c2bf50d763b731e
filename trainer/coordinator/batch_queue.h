#pragma once

// Between who samples and who learns, when both run at once: batches in order, with a gate on how old the policy may be
// that a batch is sampled by. No torch.
//
// Batch b = 0, 1, ... may be begun once b - max_lag batches have been learned from: with max_lag 0 sampling and
// learning take turns, with 1 sampling is one step off, and so on. The gate is also the bound: at most max_lag + 1
// batches are begun and not yet learned from. Tokens must be at least as new as the gate promises: a batch sampled by
// an older policy than that which followed batch b - max_lag - 1 is refused, not trained on.

#include <algorithm>
#include <deque>
#include <map>
#include <optional>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "base/steady_time.h"

namespace hone::trainer {

/// Leave to sample one batch.
struct BatchPermit {
  int64_t number = 0;
  int64_t policy_version = 0;  // the newest; what sampling starts with
  int64_t oldest_version = 0;  // that the batch may hold a token of
};

/// Thread-safe: one thread begins and puts, another takes and tells what it has learned from, any closes.
template <class Batch>
class BatchQueue {
 public:
  /// Where a run starts or goes on: batches learned from so far, and the policy's version then.
  struct Start {
    int64_t batch = 0;
    int64_t policy_version = 0;
  };

  /// max_lag >= 0.
  BatchQueue(int64_t max_lag, Start start)
      : max_lag_(max_lag), next_(start.batch), taken_(start.batch), learned_(start.batch) {
    versions_.push_back(start.policy_version);
  }

  /// Waits at the gate. kDeadlineExceeded says what for; else Close's status.
  absl::StatusOr<BatchPermit> Begin(SteadyTime deadline) ABSL_LOCKS_EXCLUDED(mutex_) {
    absl::MutexLock lock(&mutex_);
    const auto open = [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
      return !closed_.ok() || next_ - max_lag_ <= learned_;
    };
    const bool came = AwaitUntil(mutex_, absl::Condition(&open), deadline);
    if (!closed_.ok()) return closed_;
    if (!came) {
      return absl::DeadlineExceededError(absl::StrCat("batch ", next_, " waits until batch ", next_ - max_lag_ - 1,
                                                      " has been learned from; ", learned_, " batches have"));
    }
    const int64_t number = next_++;
    begun_[number] = VersionAfter(number - max_lag_);
    return BatchPermit{number, versions_.back(), begun_[number]};
  }

  /// `oldest_version`: of any of its tokens. kFailedPrecondition: older than the permit allows, or a number that is not
  /// begun.
  absl::Status Put(int64_t number, int64_t oldest_version, Batch batch) ABSL_LOCKS_EXCLUDED(mutex_) {
    absl::MutexLock lock(&mutex_);
    if (!closed_.ok()) return closed_;
    const auto begun = begun_.find(number);
    if (begun == begun_.end()) return absl::FailedPreconditionError(absl::StrCat("batch ", number, " is not begun"));
    if (oldest_version < begun->second) {
      return absl::FailedPreconditionError(absl::StrCat("batch ", number, " holds tokens of policy version ",
                                                        oldest_version, ", allowed >= ", begun->second));
    }
    begun_.erase(begun);
    ready_.emplace(number, std::move(batch));
    return absl::OkStatus();
  }

  /// The next batch in order. kDeadlineExceeded says which is missing; else Close's status.
  absl::StatusOr<Batch> Take(SteadyTime deadline) ABSL_LOCKS_EXCLUDED(mutex_) {
    absl::MutexLock lock(&mutex_);
    const auto there = [this]()
                           ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return !closed_.ok() || ready_.count(taken_) > 0; };
    const bool came = AwaitUntil(mutex_, absl::Condition(&there), deadline);
    if (!closed_.ok()) return closed_;
    if (!came) {
      return absl::DeadlineExceededError(
          absl::StrCat("batch ", taken_, begun_.count(taken_) > 0 ? " is still being sampled" : " is not begun"));
    }
    Batch batch = std::move(ready_.at(taken_));
    ready_.erase(taken_++);
    return batch;
  }

  /// The oldest batch that was taken has been learned from and the policy is now `version`: the same as before where
  /// the step was skipped. kFailedPrecondition: none is taken. kInvalidArgument: older than the version before.
  absl::Status Learned(int64_t version) ABSL_LOCKS_EXCLUDED(mutex_) {
    absl::MutexLock lock(&mutex_);
    if (learned_ == taken_) return absl::FailedPreconditionError("no batch is being learned from");
    if (version < versions_.back()) {
      return absl::InvalidArgumentError(absl::StrCat("policy version ", version, " after version ", versions_.back()));
    }
    ++learned_;
    versions_.push_back(version);
    while (static_cast<int64_t>(versions_.size()) > max_lag_ + 1) versions_.pop_front();
    return absl::OkStatus();
  }

  /// Ends every wait, now and later, with `why`, which is not OK. The first counts.
  void Close(absl::Status why) ABSL_LOCKS_EXCLUDED(mutex_) {
    absl::MutexLock lock(&mutex_);
    if (closed_.ok()) closed_ = std::move(why);
  }

 private:
  // The policy's version once `batches` had been learned from; before the start, the start's.
  int64_t VersionAfter(int64_t batches) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    const int64_t back = std::max<int64_t>(0, learned_ - batches);
    return versions_[std::max<int64_t>(0, static_cast<int64_t>(versions_.size()) - 1 - back)];
  }

  const int64_t max_lag_;
  absl::Mutex mutex_;
  int64_t next_ ABSL_GUARDED_BY(mutex_);                      // to be begun
  int64_t taken_ ABSL_GUARDED_BY(mutex_);                     // to be taken
  int64_t learned_ ABSL_GUARDED_BY(mutex_);                   // batches learned from
  std::deque<int64_t> versions_ ABSL_GUARDED_BY(mutex_);      // after the last batches learned from, the newest last
  std::map<int64_t, int64_t> begun_ ABSL_GUARDED_BY(mutex_);  // and not put: the oldest version allowed
  std::map<int64_t, Batch> ready_ ABSL_GUARDED_BY(mutex_);
  absl::Status closed_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace hone::trainer
