#pragma once

// Supervised fine-tuning, one step at a time. The caller brings the sequences of a step.

#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "trainer/data/sequence.h"
#include "trainer/loop/learner.h"

namespace hone::trainer {

struct SftOptions {
  LearnerOptions learner;
};

class SftTrainer {
 public:
  /// `decoder` is borrowed for the trainer's life.
  static absl::StatusOr<std::unique_ptr<SftTrainer>> Create(const SftOptions& options, policy::Decoder& decoder);

  /// One update on all of `sequences`: the mean negative log-likelihood of the trained tokens, each times its weight,
  /// over the number of trained tokens. Does not depend on how the batch is cut into micro-batches.
  ///
  /// Metrics: loss, perplexity, entropy, gradient_norm, learning_rate, tokens, loss_tokens, tokens_per_s, updated (0 or
  /// 1), skipped_steps (so far). kInvalidArgument: see Validate(TrainSequence).
  absl::StatusOr<StepMetrics> Step(const std::vector<TrainSequence>& sequences);

  Learner& learner() { return *learner_; }

 private:
  explicit SftTrainer(std::unique_ptr<Learner> learner) : learner_(std::move(learner)) {}
  std::unique_ptr<Learner> learner_;
};

}  // namespace hone::trainer
