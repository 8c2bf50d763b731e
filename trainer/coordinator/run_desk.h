#pragma once

// Where workers and the learner meet besides the leases: what the run is, who lives, and whose turn it is to get weights.
// No torch, no network: weights themselves travel through trainer/comm/weight_server.h.
//
// Weights are sent when the learner has time, one worker after another:
//
//   worker                              learner's thread
//   Await(wish) ──────▶ waiting ──────▶ Waiting
//               ◀────── granted ◀────── Grant, then both go to the channel

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "base/steady_time.h"

namespace hone::trainer {

/// What a worker is told that joins.
struct RunDescription {
  std::string session;                       // names this start of the run: leases and channels of another are void
  std::string settings;                      // YAML as `hone train` reads it
  std::map<std::string, std::string> files;  // the policy's folder without its weights
  int store_port = 0;                        // where weights are met, on the coordinator's host
};

/// A worker that lacks weights.
struct WeightWish {
  std::string worker;
  int64_t held = -1;       // version that it has; negative: none
  bool connected = false;  // whether its channel of an earlier transfer still stands
};

/// A transfer that begins.
struct WeightGrant {
  std::string channel;  // name of the meeting
  bool fresh = false;   // meet anew; else the channel that stands is used
  bool nccl = false;    // between GPUs; else through the store
};

/// Where workers' time went.
struct WorkSeconds {
  double generate = 0;  // engines ran
  double verify = 0;    // nothing but verdicts was waited for
};

/// Thread-safe.
class RunDesk {
 public:
  /// A worker that is not heard of for `silence` counts as gone.
  RunDesk(RunDescription run, absl::Duration silence) : run_(std::move(run)), silence_(silence) {}

  const RunDescription& run() const { return run_; }

  // --- the workers' side

  void Seen(const std::string& worker) ABSL_LOCKS_EXCLUDED(mutex_);
  void Left(const std::string& worker) ABSL_LOCKS_EXCLUDED(mutex_);
  /// Waits for a grant; none at the deadline.
  std::optional<WeightGrant> Await(const WeightWish& wish, SteadyTime deadline) ABSL_LOCKS_EXCLUDED(mutex_);
  /// Of weights that the learner would send at once; negative: none.
  int64_t ready_version() const ABSL_LOCKS_EXCLUDED(mutex_);
  void AddSeconds(const WorkSeconds& seconds) ABSL_LOCKS_EXCLUDED(mutex_);

  // --- the learner's side

  std::vector<std::string> Alive() const ABSL_LOCKS_EXCLUDED(mutex_);
  /// Wishes without a grant, by worker.
  std::vector<WeightWish> Waiting() const ABSL_LOCKS_EXCLUDED(mutex_);
  /// False: the worker waits no longer.
  bool Grant(const std::string& worker, const WeightGrant& grant) ABSL_LOCKS_EXCLUDED(mutex_);
  /// Negative: nothing is sent until the next call.
  void SetReady(int64_t version) ABSL_LOCKS_EXCLUDED(mutex_);
  /// Since the call before.
  WorkSeconds TakeSeconds() ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  struct Waiter {
    WeightWish wish;
    std::optional<WeightGrant> grant;
  };

  const RunDescription run_;
  const absl::Duration silence_;
  mutable absl::Mutex mutex_;
  std::map<std::string, SteadyTime> seen_ ABSL_GUARDED_BY(mutex_);
  std::map<std::string, Waiter> waiting_ ABSL_GUARDED_BY(mutex_);
  int64_t ready_version_ ABSL_GUARDED_BY(mutex_) = -1;
  WorkSeconds seconds_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace hone::trainer
