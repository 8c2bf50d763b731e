#pragma once

// One optimiser step out of micro-batches: what SFT and RL share.

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "policy/model/decoder.h"
#include "trainer/comm/communicator.h"
#include "trainer/optim/adamw.h"
#include "trainer/optim/sharded_adamw.h"
#include "trainer/optim/schedule.h"

namespace hone::trainer {

/// Scalars of one step, under the names that MetricsWriter records.
using StepMetrics = std::map<std::string, double>;

/// Where a step is: for progress lines and for tests that kill it there.
enum class StepPhase { kScore, kForward, kBackward, kOptimizer };
const char* Name(StepPhase phase);  // "scoring", "a forward pass", "a backward pass", "the optimiser"

struct LearnerOptions {
  AdamWOptions adamw;
  Schedule schedule;
  double clip_norm = 1.0;             // of the global gradient; 0: no clipping
  int64_t micro_batch_tokens = 8192;  // token budget of one forward and backward pass
  /// Compute a prompt that several sequences have once (trainer/data/packing.h). RL only.
  bool share_prefixes = false;
  std::function<void(StepPhase)> on_phase;  // may be empty
  /// The ranks that learn together, each from its own sequences; null: alone. Weights are then spread over them, and losses,
  /// norms and counts are those of all ranks' batches. Borrowed.
  Communicator* ranks = nullptr;
  ShardOptions shards;  // how, with ranks
};

struct StepOutcome {
  bool updated = false;  // false: the gradient or the loss was not finite, or there was nothing to train on
  double loss = 0;
  double gradient_norm = 0;  // before clipping
  double learning_rate = 0;
};

/// Owns the optimiser and the counters; borrows the decoder. Not thread-safe.
class Learner {
 public:
  static absl::StatusOr<std::unique_ptr<Learner>> Create(const LearnerOptions& options, policy::Decoder& decoder);

  /// Calls `micro_loss(i)` for i in [0, micro_batches): it runs the forward pass and returns the scalar loss, whose
  /// gradients are accumulated. Then clips and steps. Losses must already be shares of the whole batch.
  /// With ranks, all of them call Step; those with fewer micro-batches run empty ones, because a layer's weights come from
  /// everybody.
  /// A loss or gradient norm that is not finite changes no weight and counts as a skipped step; so does
  /// micro_batches = 0. An error leaves the weights untouched.
  /// In fp16, whose smallest numbers gradients of a batch's share fall below, losses are scaled up before the backward pass and
  /// gradients back down: by 2^14 at first, by half of it after a step that overflowed, by twice after 200 that did not.
  absl::StatusOr<StepOutcome> Step(size_t micro_batches, const std::function<absl::StatusOr<at::Tensor>(size_t)>& micro_loss);

  policy::Decoder& decoder() { return decoder_; }
  const policy::Decoder& decoder() const { return decoder_; }
  Optimizer& optimizer() { return *optimizer_; }
  /// The optimiser when weights are spread over ranks; else null.
  ShardedAdamW* sharded() { return sharded_; }
  const LearnerOptions& options() const { return options_; }
  void EnterPhase(StepPhase phase) const {
    if (options_.on_phase) options_.on_phase(phase);
  }

  /// Calls of Step, skipped ones included; drives the schedule.
  int64_t step() const { return step_; }
  int64_t skipped_steps() const { return skipped_steps_; }
  /// Number of updates of the weights: what rollouts are labelled with.
  int64_t policy_version() const { return policy_version_; }

  /// The counters a checkpoint keeps ("learner/..."), and back. kInvalidArgument names a missing one.
  std::map<std::string, int64_t> Counters() const;
  absl::Status RestoreCounters(const std::map<std::string, int64_t>& counters);

 private:
  Learner(const LearnerOptions& options, policy::Decoder& decoder) : options_(options), decoder_(decoder) {}
  absl::StatusOr<StepOutcome> Skip(StepOutcome outcome);
  absl::Status Backward(const at::Tensor& loss, at::Tensor& total);
  double loss_scale() const;
  void AdaptLossScale(bool finite);

  LearnerOptions options_;
  policy::Decoder& decoder_;
  std::unique_ptr<Optimizer> optimizer_;
  ShardedAdamW* sharded_ = nullptr;
  int64_t step_ = 0;
  int64_t skipped_steps_ = 0;
  int64_t policy_version_ = 0;
  bool scales_losses_ = false;  // the model is in fp16
  int64_t scale_exponent_ = 14, steps_at_scale_ = 0;
};

/// values summed over the ranks; as they are when alone (ranks null).
absl::Status SumOverRanks(Communicator* ranks, std::vector<double>& values);
/// The largest count of all ranks.
absl::StatusOr<size_t> MostOfRanks(Communicator* ranks, size_t count);

/// Adds "tokens_per_s", "tflops" (of this rank's device) and, where its peak is known, "mfu", for a step over all ranks'
/// `tokens` and `flops`.
void AddSpeed(const Learner& learner, double tokens, double flops, double seconds, StepMetrics& metrics);

/// A forward pass over next to nothing, for ranks whose batches are used up: log-probs [1] of no consequence.
absl::StatusOr<at::Tensor> IdlePass(policy::Decoder& decoder);

}  // namespace hone::trainer
