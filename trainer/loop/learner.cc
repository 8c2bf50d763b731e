#include "trainer/loop/learner.h"

#include <cmath>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "policy/model/torch_status.h"

namespace hone::trainer {

absl::StatusOr<std::unique_ptr<Learner>> Learner::Create(const LearnerOptions& options, policy::Decoder& decoder) {
  if (!(options.clip_norm >= 0)) {
    return absl::InvalidArgumentError(absl::StrCat("learner: clip_norm = ", options.clip_norm, ", allowed >= 0"));
  }
  if (options.micro_batch_tokens < 1) {
    return absl::InvalidArgumentError(absl::StrCat("learner: micro_batch_tokens = ", options.micro_batch_tokens, ", allowed >= 1"));
  }
  std::unique_ptr<Learner> learner(new Learner(options, decoder));
  HONE_ASSIGN_OR_RETURN(learner->optimizer_, AdamW::Create(options.adamw, decoder.TrainedLeaves()));
  return learner;
}

absl::StatusOr<StepOutcome> Learner::Skip(StepOutcome outcome) {
  optimizer_->ZeroGradients();
  ++step_;
  ++skipped_steps_;
  return outcome;
}

absl::StatusOr<StepOutcome> Learner::Step(size_t micro_batches,
                                          const std::function<absl::StatusOr<at::Tensor>(size_t)>& micro_loss) {
  StepOutcome outcome;
  outcome.learning_rate = LearningRate(options_.schedule, step_);
  if (micro_batches == 0) return Skip(outcome);
  optimizer_->ZeroGradients();
  at::Tensor total;  // stays on the device: a look at it would wait for the forward pass
  for (size_t i = 0; i < micro_batches; ++i) {
    EnterPhase(StepPhase::kForward);
    HONE_ASSIGN_OR_RETURN(const at::Tensor loss, micro_loss(i));
    EnterPhase(StepPhase::kBackward);
    HONE_RETURN_IF_ERROR(policy::CatchTorch("backward", [&] {
      const at::Tensor value = loss.detach().to(at::kDouble);
      total = total.defined() ? total + value : value;
      loss.backward();
      return true;
    }).status());
  }
  HONE_ASSIGN_OR_RETURN(outcome.loss, policy::CatchTorch("backward", [&] { return total.item<double>(); }));
  if (!std::isfinite(outcome.loss)) return Skip(outcome);
  outcome.gradient_norm = optimizer_->GradientNorm();
  if (!std::isfinite(outcome.gradient_norm)) return Skip(outcome);
  const bool clip = options_.clip_norm > 0 && outcome.gradient_norm > options_.clip_norm;
  EnterPhase(StepPhase::kOptimizer);
  HONE_RETURN_IF_ERROR(optimizer_->Step(outcome.learning_rate, clip ? options_.clip_norm / outcome.gradient_norm : 1.0));
  ++step_;
  ++policy_version_;
  outcome.updated = true;
  return outcome;
}

std::map<std::string, int64_t> Learner::Counters() const {
  return {{"learner/step", step_},
          {"learner/skipped_steps", skipped_steps_},
          {"learner/policy_version", policy_version_},
          {"learner/optimizer_steps", optimizer_->steps()}};
}

absl::Status Learner::RestoreCounters(const std::map<std::string, int64_t>& counters) {
  for (auto [name, target] : {std::pair<const char*, int64_t*>{"learner/step", &step_},
                              {"learner/skipped_steps", &skipped_steps_},
                              {"learner/policy_version", &policy_version_}}) {
    const auto found = counters.find(name);
    if (found == counters.end()) return absl::InvalidArgumentError(absl::StrCat("checkpoint counter ", name, " is missing"));
    *target = found->second;
  }
  return absl::OkStatus();
}

}  // namespace hone::trainer
