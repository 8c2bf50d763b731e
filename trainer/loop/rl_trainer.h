#pragma once

// Policy-gradient learning from sampled sequences with advantages, one batch at a time.

#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "trainer/data/packing.h"
#include "trainer/data/sequence.h"
#include "trainer/loop/learner.h"
#include "trainer/loss/filter.h"
#include "trainer/loss/policy_loss.h"

namespace hone::trainer {

/// What the ratio's denominator is.
enum class OldPolicy {
  kRollout,     // log-probs as sampled: no further forward pass; the ratio also corrects the engine's mismatch
  kRecomputed,  // the learner's own weights before the batch's first update; the mismatch is the filters' business
};

struct RlOptions {
  LearnerOptions learner;
  PolicyLossOptions loss;
  OldPolicy old_policy = OldPolicy::kRollout;
  double temperature = 1;     // that the samples were drawn at
  int64_t updates = 1;        // optimiser steps of a batch; its sequences are dealt out in turn (i mod updates)
  std::vector<LossFilter> filters;  // applied in order; need the learner's log-probs: a scoring pass is made for them
  bool score = false;               // make the scoring pass in any case, for scores()
};

/// Mean |log pi_learner - log pi_rollout|.
struct LogProbGap {
  double mean = 0;
  int64_t tokens = 0;  // trained ones whose rollout log-prob is finite
};

class RlTrainer {
 public:
  /// `decoder` is borrowed for the trainer's life. kInvalidArgument: an option out of range.
  static absl::StatusOr<std::unique_ptr<RlTrainer>> Create(const RlOptions& options, policy::Decoder& decoder);

  /// Learns from one batch. Sequences need rollout_log_probs and an advantage; whole groups should be in one batch, but
  /// nothing here depends on grouping. A trained token whose rollout log-prob is not finite is dropped and leaves the
  /// denominator, with or without filters. An update in which no token has weight or all advantages are 0 (and no KL or
  /// entropy term acts) is skipped and counted.
  ///
  /// With a KL coefficient and an adapter, sequences without reference log-probs get those of the model without its adapter.
  ///
  /// Metrics, means over trained tokens unless said: loss (last update), policy_loss, entropy, kl (with a reference),
  /// clip_fraction, ratio, mean_abs_log_ratio (log pi_theta - log pi_old), mismatch_abs_log_ratio (log pi_old,train - log
  /// pi_rollout; with a scoring pass), rejected_share (tokens without weight), gradient_norm, learning_rate, tokens,
  /// loss_tokens, tokens_per_s, tflops and mfu (see AddSpeed; scoring passes count), score_seconds (of the passes before
  /// the first update), sequences, staleness_mean and staleness_max (versions behind), updated (updates made),
  /// skipped_steps (so far), and the filters' own. With ranks they are of all of them, the filters' own
  /// apart.
  absl::StatusOr<StepMetrics> Step(const std::vector<TrainSequence>& sequences);

  /// Of sequences, by the learner's present weights; changes nothing.
  absl::StatusOr<LogProbGap> Gap(const std::vector<TrainSequence>& sequences);

  /// Of the sequences of the last Step, the learner's log-probs before its first update, as ScoreSequences gives them;
  /// empty without a scoring pass.
  const std::vector<std::vector<float>>& scores() const { return scores_; }

  Learner& learner() { return *learner_; }

  /// Ok where prompts are computed once, as LearnerOptions::share_prefixes asks. Else why not: not asked for, or what a
  /// test of the kernels said at Create (policy/model/prefix_attention.h).
  const absl::Status& prefix_sharing() const { return prefix_sharing_; }

 private:
  struct Plan;
  RlTrainer(const RlOptions& options, std::unique_ptr<Learner> learner) : options_(options), learner_(std::move(learner)) {}
  absl::StatusOr<std::vector<std::vector<float>>> Score(const std::vector<TrainSequence>& sequences);
  absl::Status DecideTokens(const std::vector<TrainSequence>& sequences, Plan& plan, StepMetrics& metrics);
  absl::Status ScoreReference(const std::vector<TrainSequence>& sequences, Plan& plan);
  absl::Status Update(const std::vector<TrainSequence>& sequences, Plan& plan, std::vector<size_t> which, StepMetrics& metrics);
  absl::StatusOr<at::Tensor> MicroLoss(const std::vector<TrainSequence>& sequences, const Plan& plan,
                                       const MicroBatch& bundles, StepMetrics& sums);

  RlOptions options_;
  std::unique_ptr<Learner> learner_;
  absl::Status prefix_sharing_;
  std::vector<std::vector<float>> scores_;
};

}  // namespace hone::trainer
