#pragma once

// The exemplars of CUDA-L1's contrastive prompts: verified candidates of each task, in buckets of similar speedup.
//
// A prompt shows two earlier implementations with their measured speedups, one from each of two distinct buckets, so
// that the policy sees what made one faster than the other. The store keeps the candidates and draws the pair. Source:
// CUDA-L1, arXiv:2507.14111, contrastive prompting and its measurement rules. Ours, because not published: bucket
// width, tau, bounds, eviction.
//
// Scores of different devices or baselines say nothing about one another: the first candidate decides both for the
// file, others are refused.

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/config.h"
#include "base/sqlite.h"
#include "base/verdict.h"
#include "rewards/terms/cuda_l1.h"
#include "rollout/sampler/random.h"

namespace hone::rollout {

struct ExemplarConfig {
  bool enabled = true;
  double bucket_width = 0.1;
  double tau = 0.5;
  int64_t per_bucket = 8;
  int64_t per_task = 64;
  std::string estimate = "lower_bound";
  rewards::RemeasureRule remeasure;
};
template <class F>
void Describe(F& f, ExemplarConfig& c) {
  f.Value("enabled", c.enabled, "show two verified implementations of different speed in the prompt");
  f.Value("bucket_width", c.bucket_width, Range(1e-6, 1e6), "of a bucket [k w, (k+1) w), in speedup");
  f.Value("tau", c.tau, Range(1e-6, 1e6), "temperature of the softmax over bucket means, in speedup");
  f.Value("per_bucket", c.per_bucket, Range(1, 1 << 20), "candidates kept of a bucket; the oldest makes room");
  f.Value("per_task", c.per_task, Range(2, 1 << 20), "candidates kept of a task; the fullest bucket makes room");
  f.Value("estimate", c.estimate, OneOf{{"lower_bound", "median"}}, "which point of the 95 % interval is the score");
  f.Value("remeasure_above", c.remeasure.absolute, Range(0.0, 1e9), "speedup that needs a second measurement");
  f.Value("remeasure_over_best", c.remeasure.over_best, Range(0.0, 1e9), "so does this multiple of the task's best");
  f.Value("remeasure_tolerance", c.remeasure.tolerance, Range(0.0, 10.0), "by which the two measurements may differ");
}

/// A candidate for the store.
struct ExemplarOffer {
  std::string task_id;
  std::string source;
  Verdict verdict;
  std::optional<Verdict> second;  // another measurement of the same source, from a lane of the same device kind
  std::string origin = "rl";      // "sft", "rft": what seeded the store
  int64_t policy_version = 0;
};

enum class OfferResult {
  kStored,
  kKnown,       // the same source is there already
  kIneligible,  // not a verified pass with a speedup: never shown to a policy
  kDoubted,     // too good to be believed at once: verify again without the cache and offer with `second`
  kRefuted,     // the second measurement is not a pass or differs too much
};

struct Exemplar {
  std::string source;
  double speedup = 0;
  friend bool operator==(const Exemplar&, const Exemplar&) = default;
};

/// A database file, kept through kill -9 after every offer that returned. One thread at a time.
class ExemplarStore {
 public:
  /// Creates the file when missing. kFailedPrecondition: another process holds it. kDataLoss: not a store.
  /// kInvalidArgument: of a newer version.
  static absl::StatusOr<std::unique_ptr<ExemplarStore>> Open(const std::string& path, const ExemplarConfig& config);

  /// kFailedPrecondition: a device or baseline other than the file's, naming both.
  absl::StatusOr<OfferResult> Offer(const ExemplarOffer& offer);

  /// The slower and the faster of two exemplars from distinct buckets; std::nullopt while the task has fewer than two
  /// buckets.
  absl::StatusOr<std::optional<std::pair<Exemplar, Exemplar>>> Draw(const std::string& task_id, SplitMix& random);

  /// The task's best score; std::nullopt: none yet.
  absl::StatusOr<std::optional<double>> Best(const std::string& task_id);

  /// Candidates now in the store.
  absl::StatusOr<int64_t> Size();

  /// A point to come back to, for a checkpoint: RestoreTo brings back exactly the candidates of that moment, those
  /// evicted since included. A mark stays valid until Forget is called with a later one.
  absl::StatusOr<int64_t> Mark();
  /// kNotFound: a mark of the future or forgotten.
  absl::Status RestoreTo(int64_t mark);
  /// Deletes what was evicted up to `mark`: call once the checkpoint with this mark is the oldest that will be resumed.
  absl::Status Forget(int64_t mark);

 private:
  ExemplarStore(const ExemplarConfig& config, std::unique_ptr<Database> database)
      : config_(config), database_(std::move(database)) {}
  absl::Status CreateTables();
  absl::Status Bind(const std::string& key, const std::string& value);
  absl::StatusOr<bool> Known(const std::string& task_id, const std::string& content);
  absl::Status Insert(const ExemplarOffer& offer, double speedup);
  absl::Status MakeRoom(const std::string& task_id, int64_t bucket, int64_t sequence);
  absl::Status EvictOldest(const std::string& task_id, int64_t bucket, int64_t sequence);
  absl::StatusOr<int64_t> Number(const std::string& sql, const std::string& task_id);
  absl::StatusOr<Exemplar> DrawFrom(const std::string& task_id, int64_t bucket, int64_t count, SplitMix& random);

  ExemplarConfig config_;
  std::unique_ptr<Database> database_;
};

}  // namespace hone::rollout
