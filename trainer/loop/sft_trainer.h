#pragma once

// Supervised fine-tuning, one step at a time. The caller brings the sequences of a step.

#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "trainer/data/sequence.h"
#include "trainer/loop/learner.h"
#include "trainer/loss/sft_weights.h"

namespace hone::trainer {

struct SftOptions {
  LearnerOptions learner;
  SftWeightOptions weights;
};

class SftTrainer {
 public:
  /// `decoder` is borrowed for the trainer's life.
  static absl::StatusOr<std::unique_ptr<SftTrainer>> Create(const SftOptions& options, policy::Decoder& decoder);

  /// One update on all of `sequences`: the negative log-likelihood of the trained tokens, each times its weight (the
  /// sequence's own and the objective's), over the number of trained tokens; with kCuset over the number of sequences,
  /// as the paper's eq. 9 has it. Does not depend on how the batch is cut into micro-batches.
  ///
  /// Metrics: loss, nll (mean, unweighted), perplexity (of nll), entropy, gradient_norm, learning_rate, tokens, loss_tokens, tokens_per_s, updated (0 or
  /// 1), skipped_steps (so far). kInvalidArgument: see Validate(TrainSequence).
  absl::StatusOr<StepMetrics> Step(const std::vector<TrainSequence>& sequences);

  Learner& learner() { return *learner_; }

 private:
  SftTrainer(const SftOptions& options, std::unique_ptr<Learner> learner) : options_(options), learner_(std::move(learner)) {}

  SftOptions options_;
  std::unique_ptr<Learner> learner_;
};

}  // namespace hone::trainer
