#pragma once

// Buffered dynamic retry (BDR): a prompt on which every rollout failed comes back as a repair task.
//
// A group without a single pass gives no signal under group normalisation. Its failure that got furthest is kept with
// the verifier's evidence in a bounded queue; with a small probability a slot of a later batch is filled from the
// queue: the prompt then shows the failing code and what was wrong with it, and the group is sampled and trained as any
// other.
//
// Source: MusaCoder, arXiv:2606.04847, buffered dynamic retry: all-failed groups, bounded FIFO, small probability,
// feedback-conditioned repair. Ours, because not published: capacity, probability, which failure is kept, re-queueing.

#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "base/config.h"
#include "base/episode.h"
#include "rollout/sampler/random.h"

namespace hone::rollout {

struct RetryConfig {
  bool enabled = true;
  int64_t capacity = 256;
  double probability = 0.1;
  int64_t max_attempts = 2;
};
template <class F>
void Describe(F& f, RetryConfig& c) {
  f.Value("enabled", c.enabled, "buffered dynamic retry of prompts on which every rollout failed");
  f.Value("capacity", c.capacity, Range(1, 1 << 20), "records kept; the oldest makes room");
  f.Value("probability", c.probability, Range(0.0, 1.0), "that a slot of a batch becomes a repair task");
  f.Value("max_attempts", c.max_attempts, Range(1, 1000), "repair groups that one prompt may get before it is dropped");
}

/// A failing candidate with what the verifier said of it.
struct RetryRecord {
  int64_t id = 0;  // unique within a buffer, in order of first queueing
  std::string task_id;
  std::string source;       // of the candidate that got furthest
  Verdict verdict;          // its evidence; never OK, CHEAT or INFRA
  int64_t attempts = 0;     // repair groups already spent on it
  int64_t queued_step = 0;  // of the last queueing
  friend bool operator==(const RetryRecord&, const RetryRecord&) = default;
};

struct RetryStats {
  int64_t fill = 0;
  int64_t slots = 0;  // draws asked for
  int64_t drawn = 0;
  int64_t repaired = 0;    // repair groups with at least one pass
  int64_t failed = 0;      // repair groups without
  int64_t given_up = 0;    // records dropped after max_attempts
  int64_t overflowed = 0;  // records that made room
  int64_t age_steps = 0;   // summed over draws: steps from queueing to drawing

  double HitRate() const { return repaired + failed > 0 ? static_cast<double>(repaired) / (repaired + failed) : 0; }
  double RepairShare() const { return slots > 0 ? static_cast<double>(drawn) / slots : 0; }
  double MeanAge() const { return drawn > 0 ? static_cast<double>(age_steps) / drawn : 0; }
  /// "retry/fill", "retry/hit_rate", ... for the metrics of a step.
  std::map<std::string, double> Metrics() const;
  friend bool operator==(const RetryStats&, const RetryStats&) = default;
};

/// The failure of an all-failed group that got furthest: INCORRECT by its rate of right checks, then run-time failures,
/// then compile failures, then the rest; the first of equals. std::nullopt: some turn passed, fewer than half of the
/// episodes were judged (what INFRA took is no evidence of failure), or no failing code is fit to be shown (a CHEAT
/// never is).
std::optional<RetryRecord> FurthestFailure(const Group& group);

/// Not thread-safe. The whole state, generator included, goes into checkpoints through Save and Restore.
class RetryBuffer {
 public:
  RetryBuffer(const RetryConfig& config, uint64_t seed) : config_(config), random_(seed) {}

  /// A finished group of ordinary rollouts: queued when all failed. Does nothing for repair groups: see Report.
  void Offer(const Group& group, int64_t step);

  /// Asked once for each slot of a batch. With the configured probability, and when there is one, the oldest record:
  /// its repair group must be reported by id.
  std::optional<RetryRecord> Draw(int64_t step);

  /// The repair group of a drawn record. A pass settles it; else it is queued again with the failure that now got
  /// furthest, until its attempts are spent. Without any judged episode the attempt does not count.
  /// kNotFound: no record with this id is drawn.
  absl::Status Report(int64_t id, const Group& group, int64_t step);

  RetryStats stats() const;

  /// JSON. Drawn records that were not reported are part of the state: after Restore they are at the head of the queue,
  /// because the groups that were sampled for them are gone.
  std::string Save() const;
  /// kDataLoss: not a state that Save wrote. The configuration stays this buffer's own; of more records than fit, the
  /// oldest make room.
  absl::Status Restore(absl::string_view state);

 private:
  void Queue(RetryRecord record, int64_t step);

  RetryConfig config_;
  SplitMix random_;
  std::deque<RetryRecord> queue_;         // oldest first
  std::map<int64_t, RetryRecord> drawn_;  // by id, awaiting Report
  int64_t next_id_ = 1;
  RetryStats stats_;
};

}  // namespace hone::rollout
