#include "trainer/loop/sft_trainer.h"

#include <chrono>
#include <cmath>

#include "base/status_macros.h"
#include "cmake/torch_pch.h"
#include "trainer/data/packing.h"
#include "trainer/loss/policy_loss.h"

namespace hone::trainer {
namespace {

// Weight of each loss token over the number of loss tokens of the whole step.
at::Tensor Coefficients(const std::vector<TrainSequence>& sequences, const PackedBatch& batch, double loss_tokens) {
  std::vector<float> out;
  out.reserve(batch.loss_tokens());
  for (size_t index : batch.sequences) {
    const TrainSequence& s = sequences[index];
    for (int64_t t = 1; t < s.length(); ++t) {
      if (s.loss_mask[t] != 0) out.push_back(static_cast<float>((s.token_weights.empty() ? 1.0 : s.token_weights[t]) / loss_tokens));
    }
  }
  return at::tensor(out, at::kFloat);
}

}  // namespace

absl::StatusOr<std::unique_ptr<SftTrainer>> SftTrainer::Create(const SftOptions& options, policy::Decoder& decoder) {
  HONE_ASSIGN_OR_RETURN(std::unique_ptr<Learner> learner, Learner::Create(options.learner, decoder));
  return std::unique_ptr<SftTrainer>(new SftTrainer(std::move(learner)));
}

absl::StatusOr<StepMetrics> SftTrainer::Step(const std::vector<TrainSequence>& sequences) {
  const auto start = std::chrono::steady_clock::now();
  std::vector<int64_t> lengths;
  double tokens = 0, loss_tokens = 0, entropy = 0;
  for (size_t i = 0; i < sequences.size(); ++i) {
    HONE_RETURN_IF_ERROR(Validate(sequences[i], i, /*needs_rollout=*/false));
    lengths.push_back(sequences[i].length());
    tokens += static_cast<double>(sequences[i].length());
    loss_tokens += static_cast<double>(sequences[i].LossTokens());
  }
  std::vector<std::vector<size_t>> plan;
  if (loss_tokens > 0) plan = PlanMicroBatches(lengths, learner_->options().micro_batch_tokens);
  policy::Decoder& decoder = learner_->decoder();
  HONE_ASSIGN_OR_RETURN(const StepOutcome outcome, learner_->Step(plan.size(), [&](size_t i) -> absl::StatusOr<at::Tensor> {
    const PackedBatch batch = Pack(sequences, plan[i]);
    policy::PackedSequences attention(batch.offsets);
    HONE_ASSIGN_OR_RETURN(const at::Tensor hidden, decoder.Hidden(batch.ids, batch.positions, attention));
    HONE_ASSIGN_OR_RETURN(const policy::LogProbs rows,
                          decoder.TargetLogProbs(hidden.index_select(0, batch.loss_rows), batch.targets, 1.0));
    entropy += rows.entropy.detach().sum().item<double>();
    return WeightedNegativeLogLikelihood(rows.log_probs, Coefficients(sequences, batch, loss_tokens));
  }));
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  return StepMetrics{{"loss", outcome.loss},
                     {"perplexity", std::exp(outcome.loss)},
                     {"entropy", loss_tokens > 0 ? entropy / loss_tokens : 0},
                     {"gradient_norm", outcome.gradient_norm},
                     {"learning_rate", outcome.learning_rate},
                     {"tokens", tokens},
                     {"loss_tokens", loss_tokens},
                     {"tokens_per_s", tokens / seconds},
                     {"updated", outcome.updated ? 1.0 : 0.0},
                     {"skipped_steps", static_cast<double>(learner_->skipped_steps())}};
}

}  // namespace hone::trainer
