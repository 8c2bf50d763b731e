#include "trainer/loop/learner.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "policy/model/device.h"
#include "policy/model/torch_status.h"

namespace hone::trainer {
namespace {

constexpr int64_t kStepsBeforeLargerScale = 200, kLargestScaleExponent = 24;
constexpr char kScaleExponent[] = "learner/scale_exponent", kStepsAtScale[] = "learner/steps_at_scale";

}  // namespace

const char* Name(StepPhase phase) {
  constexpr const char* kNames[] = {"scoring", "a forward pass", "a backward pass", "the optimiser"};
  return kNames[static_cast<int>(phase)];
}

absl::StatusOr<std::unique_ptr<Learner>> Learner::Create(const LearnerOptions& options, policy::Decoder& decoder) {
  if (!(options.clip_norm >= 0)) {
    return absl::InvalidArgumentError(absl::StrCat("learner: clip_norm = ", options.clip_norm, ", allowed >= 0"));
  }
  if (options.micro_batch_tokens < 1) {
    return absl::InvalidArgumentError(absl::StrCat("learner: micro_batch_tokens = ", options.micro_batch_tokens, ", allowed >= 1"));
  }
  std::unique_ptr<Learner> learner(new Learner(options, decoder));
  learner->scales_losses_ = decoder.parameters().leaves()[0].value.scalar_type() == at::kHalf;
  if (options.ranks == nullptr) {
    HONE_ASSIGN_OR_RETURN(learner->optimizer_, AdamW::Create(options.adamw, decoder.TrainedLeaves()));
  } else {
    HONE_ASSIGN_OR_RETURN(std::unique_ptr<ShardedAdamW> sharded, ShardedAdamW::Create(options.adamw, options.shards, decoder, *options.ranks));
    learner->sharded_ = sharded.get();
    learner->optimizer_ = std::move(sharded);
  }
  return learner;
}

absl::StatusOr<StepOutcome> Learner::Skip(StepOutcome outcome) {
  optimizer_->ZeroGradients();
  ++step_;
  ++skipped_steps_;
  return outcome;
}

absl::Status Learner::Backward(const at::Tensor& loss, at::Tensor& total) {
  EnterPhase(StepPhase::kBackward);
  return policy::CatchTorch("backward", [&] {
    const at::Tensor value = loss.detach().to(at::kDouble);
    total = total.defined() ? total + value : value;
    (scales_losses_ ? loss * loss_scale() : loss).backward();
    return true;
  }).status();
}

double Learner::loss_scale() const { return scales_losses_ ? std::ldexp(1.0, static_cast<int>(scale_exponent_)) : 1.0; }

void Learner::AdaptLossScale(bool finite) {
  if (!finite) {
    scale_exponent_ = std::max<int64_t>(0, scale_exponent_ - 1);
    steps_at_scale_ = 0;
  } else if (++steps_at_scale_ == kStepsBeforeLargerScale) {
    scale_exponent_ = std::min(kLargestScaleExponent, scale_exponent_ + 1);
    steps_at_scale_ = 0;
  }
}

absl::StatusOr<StepOutcome> Learner::Step(size_t micro_batches,
                                          const std::function<absl::StatusOr<at::Tensor>(size_t)>& micro_loss) {
  StepOutcome outcome;
  outcome.learning_rate = LearningRate(options_.schedule, step_);
  HONE_ASSIGN_OR_RETURN(const size_t most, MostOfRanks(options_.ranks, micro_batches));
  if (most == 0) return Skip(outcome);
  optimizer_->ZeroGradients();
  at::Tensor total;  // stays on the device: a look at it would wait for the forward pass
  for (size_t i = 0; i < most; ++i) {
    EnterPhase(StepPhase::kForward);
    if (i < micro_batches) {
      HONE_ASSIGN_OR_RETURN(const at::Tensor loss, micro_loss(i));
      HONE_RETURN_IF_ERROR(Backward(loss, total));
    } else {
      HONE_ASSIGN_OR_RETURN(const at::Tensor nothing, IdlePass(decoder_));
      HONE_RETURN_IF_ERROR(Backward((nothing * 0).sum(), total));
    }
  }
  HONE_ASSIGN_OR_RETURN(outcome.loss, policy::CatchTorch("backward", [&] { return total.item<double>(); }));
  HONE_ASSIGN_OR_RETURN(outcome.gradient_norm, optimizer_->GradientNorm());
  const double scale = loss_scale();
  outcome.gradient_norm /= scale;
  std::vector<double> losses{outcome.loss};
  HONE_RETURN_IF_ERROR(SumOverRanks(options_.ranks, losses));
  outcome.loss = losses[0];
  if (!std::isfinite(outcome.loss)) return Skip(outcome);
  AdaptLossScale(std::isfinite(outcome.gradient_norm));
  if (!std::isfinite(outcome.gradient_norm)) return Skip(outcome);
  const bool clip = options_.clip_norm > 0 && outcome.gradient_norm > options_.clip_norm;
  EnterPhase(StepPhase::kOptimizer);
  HONE_RETURN_IF_ERROR(optimizer_->Step(outcome.learning_rate, (clip ? options_.clip_norm / outcome.gradient_norm : 1.0) / scale));
  ++step_;
  ++policy_version_;
  outcome.updated = true;
  return outcome;
}

absl::Status SumOverRanks(Communicator* ranks, std::vector<double>& values) {
  return ranks == nullptr ? absl::OkStatus() : ranks->Sum(values);
}

absl::StatusOr<size_t> MostOfRanks(Communicator* ranks, size_t count) {
  std::vector<double> most{static_cast<double>(count)};
  if (ranks != nullptr) HONE_RETURN_IF_ERROR(ranks->Max(most));
  return static_cast<size_t>(most[0]);
}

void AddSpeed(const Learner& learner, double tokens, double flops, double seconds, StepMetrics& metrics) {
  const Communicator* ranks = learner.options().ranks;
  const double rate = flops / seconds / (ranks == nullptr ? 1 : ranks->size());
  metrics["tokens_per_s"] = tokens / seconds;
  metrics["tflops"] = rate / 1e12;
  const double peak = policy::PeakFlops(learner.decoder().parameters().leaves()[0].value.device());
  if (peak > 0) metrics["mfu"] = rate / peak;
}

absl::StatusOr<at::Tensor> IdlePass(policy::Decoder& decoder) {
  policy::PackedSequences attention(at::tensor(std::vector<int64_t>{0, 1}, at::kLong));
  const at::Tensor zero = at::zeros({1}, at::kLong);
  HONE_ASSIGN_OR_RETURN(const at::Tensor hidden, decoder.Hidden(zero, zero, attention));
  HONE_ASSIGN_OR_RETURN(const policy::LogProbs row, decoder.TargetLogProbs(hidden, zero, 1.0));
  return row.log_probs;
}

std::map<std::string, int64_t> Learner::Counters() const {
  std::map<std::string, int64_t> counters = {{"learner/step", step_},
                                             {"learner/skipped_steps", skipped_steps_},
                                             {"learner/policy_version", policy_version_},
                                             {"learner/optimizer_steps", optimizer_->steps()}};
  if (scales_losses_) counters.insert({{kScaleExponent, scale_exponent_}, {kStepsAtScale, steps_at_scale_}});
  return counters;
}

absl::Status Learner::RestoreCounters(const std::map<std::string, int64_t>& counters) {
  std::vector<std::pair<const char*, int64_t*>> targets = {
      {"learner/step", &step_}, {"learner/skipped_steps", &skipped_steps_}, {"learner/policy_version", &policy_version_}};
  if (scales_losses_) targets.insert(targets.end(), {{kScaleExponent, &scale_exponent_}, {kStepsAtScale, &steps_at_scale_}});
  for (auto [name, target] : targets) {
    const auto found = counters.find(name);
    if (found == counters.end()) return absl::InvalidArgumentError(absl::StrCat("checkpoint counter ", name, " is missing"));
    *target = found->second;
  }
  return absl::OkStatus();
}

}  // namespace hone::trainer
