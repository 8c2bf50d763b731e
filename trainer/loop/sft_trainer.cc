#include "trainer/loop/sft_trainer.h"

#include <chrono>
#include <cmath>
#include <span>

#include "base/status_macros.h"
#include "cmake/torch_pch.h"
#include "trainer/data/packing.h"
#include "trainer/loop/flops.h"
#include "trainer/loss/policy_loss.h"

namespace hone::trainer {
namespace {

// What each loss token counts, by how sure the model is of it now, over the step's denominator.
at::Tensor Coefficients(const std::vector<TrainSequence>& sequences, const PackedBatch& batch, const at::Tensor& log_probs,
                        const SftWeightOptions& options, double denominator) {
  // Plain weights ask nothing of the model, and then the device is not waited for.
  const bool plain = options.objective == SftObjective::kPlain;
  const at::Tensor probabilities = plain ? at::zeros({log_probs.size(0)}, at::kFloat) : log_probs.detach().exp().to(at::kCPU).contiguous();
  std::span<const float> p(probabilities.const_data_ptr<float>(), probabilities.numel());
  std::vector<float> out;
  out.reserve(p.size());
  for (size_t i = 0; i < batch.sequences.size(); ++i) {
    const TrainSequence& s = sequences[batch.sequences[i]];
    std::vector<uint8_t> kernel;
    for (int64_t t = 1; t < s.length() && !s.kernel_tokens.empty(); ++t) {
      if (s.loss_mask[t] != 0) kernel.push_back(s.kernel_tokens[t]);
    }
    const int64_t begin = batch.loss_offsets[i];
    const std::vector<float> weights = SftWeights(p.subspan(begin, batch.loss_offsets[i + 1] - begin), kernel, options);
    size_t next = 0;
    for (int64_t t = 1; t < s.length(); ++t) {
      if (s.loss_mask[t] == 0) continue;
      const double own = s.token_weights.empty() ? 1.0 : s.token_weights[t];
      out.push_back(static_cast<float>(own * weights[next++] / denominator));
    }
  }
  return at::tensor(out, at::kFloat).to(log_probs.device());
}

}  // namespace

absl::StatusOr<std::unique_ptr<SftTrainer>> SftTrainer::Create(const SftOptions& options, policy::Decoder& decoder) {
  HONE_RETURN_IF_ERROR(Validate(options.weights));
  HONE_ASSIGN_OR_RETURN(std::unique_ptr<Learner> learner, Learner::Create(options.learner, decoder));
  return std::unique_ptr<SftTrainer>(new SftTrainer(options, std::move(learner)));
}

absl::StatusOr<StepMetrics> SftTrainer::Step(const std::vector<TrainSequence>& sequences) {
  const auto start = std::chrono::steady_clock::now();
  std::vector<int64_t> lengths;
  double tokens = 0, loss_tokens = 0;
  for (size_t i = 0; i < sequences.size(); ++i) {
    HONE_RETURN_IF_ERROR(Validate(sequences[i], i, /*needs_rollout=*/false));
    lengths.push_back(sequences[i].length());
    tokens += static_cast<double>(sequences[i].length());
    loss_tokens += static_cast<double>(sequences[i].LossTokens());
  }
  std::vector<double> all{static_cast<double>(sequences.size()), tokens, loss_tokens,
                          PassFlops(learner_->decoder(), lengths, TrainPasses(learner_->decoder()))};
  HONE_RETURN_IF_ERROR(SumOverRanks(learner_->options().ranks, all));
  tokens = all[1], loss_tokens = all[2];
  const double denominator = options_.weights.objective == SftObjective::kCuset ? all[0] : loss_tokens;
  std::vector<std::vector<size_t>> plan;
  if (loss_tokens > 0) plan = PlanMicroBatches(lengths, learner_->options().micro_batch_tokens);
  policy::Decoder& decoder = learner_->decoder();
  at::Tensor sums = at::zeros({2}, at::kDouble);  // negative log-likelihood, entropy; on the decoder's device
  HONE_ASSIGN_OR_RETURN(const StepOutcome outcome, learner_->Step(plan.size(), [&](size_t i) -> absl::StatusOr<at::Tensor> {
    const PackedBatch batch = Pack(sequences, plan[i]);
    policy::PackedSequences attention(batch.offsets);
    HONE_ASSIGN_OR_RETURN(const at::Tensor hidden, decoder.Hidden(batch.ids, batch.positions, attention));
    HONE_ASSIGN_OR_RETURN(const policy::LogProbs rows,
                          decoder.TargetLogProbs(LossRows(hidden, batch), batch.targets, 1.0));
    sums = sums.to(hidden.device()) + at::stack({-rows.log_probs.detach().sum(), rows.entropy.detach().sum()});
    return WeightedNegativeLogLikelihood(rows.log_probs,
                                         Coefficients(sequences, batch, rows.log_probs, options_.weights, denominator));
  }));
  sums = sums.cpu();
  std::vector<double> totals{sums[0].item<double>(), sums[1].item<double>()};
  HONE_RETURN_IF_ERROR(SumOverRanks(learner_->options().ranks, totals));
  const double nll = totals[0], entropy = totals[1];
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  StepMetrics metrics{{"loss", outcome.loss},
                      {"nll", loss_tokens > 0 ? nll / loss_tokens : 0},
                      {"perplexity", loss_tokens > 0 ? std::exp(nll / loss_tokens) : 1},
                      {"entropy", loss_tokens > 0 ? entropy / loss_tokens : 0},
                      {"gradient_norm", outcome.gradient_norm},
                      {"learning_rate", outcome.learning_rate},
                      {"tokens", tokens},
                      {"loss_tokens", loss_tokens},
                      {"updated", outcome.updated ? 1.0 : 0.0},
                      {"skipped_steps", static_cast<double>(learner_->skipped_steps())}};
  AddSpeed(*learner_, tokens, all[3], seconds, metrics);
  return metrics;
}

}  // namespace hone::trainer
