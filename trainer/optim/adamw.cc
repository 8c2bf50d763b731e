#include "trainer/optim/adamw.h"

#include <cmath>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "policy/model/torch_status.h"

namespace hone::trainer {
namespace {

constexpr int64_t kAlignment = 16;  // numbers; a gradient starts on a cache line

bool IsHalf(const at::Tensor& t) { return t.scalar_type() == at::kBFloat16 || t.scalar_type() == at::kHalf; }

int64_t Padded(int64_t elements) { return (elements + kAlignment - 1) / kAlignment * kAlignment; }

absl::Status Check(const AdamWOptions& o) {
  const auto bad = [](const char* name, double value, const char* range) {
    return absl::InvalidArgumentError(absl::StrCat("adamw: ", name, " = ", value, ", allowed ", range));
  };
  if (!(o.beta1 >= 0 && o.beta1 < 1)) return bad("beta1", o.beta1, "[0, 1)");
  if (!(o.beta2 >= 0 && o.beta2 < 1)) return bad("beta2", o.beta2, "[0, 1)");
  if (!(o.epsilon > 0)) return bad("epsilon", o.epsilon, "> 0");
  if (!(o.weight_decay >= 0)) return bad("weight_decay", o.weight_decay, ">= 0");
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::unique_ptr<AdamW>> AdamW::Create(const AdamWOptions& options, const std::vector<policy::Leaf>& leaves) {
  HONE_RETURN_IF_ERROR(Check(options));
  std::vector<policy::Leaf> trained;
  int64_t total = 0;
  bool any_half = false;
  for (const policy::Leaf& leaf : leaves) {
    if (!leaf.value.requires_grad()) continue;
    if (leaf.value.scalar_type() != at::kFloat && !IsHalf(leaf.value)) {
      return absl::InvalidArgumentError(absl::StrCat("adamw: weight ", leaf.name, " is ", c10::toString(leaf.value.scalar_type()),
                                                     ", allowed Float, BFloat16, Half"));
    }
    any_half = any_half || IsHalf(leaf.value);
    trained.push_back(leaf);
    total += Padded(leaf.value.numel());
  }
  if (trained.empty()) return absl::InvalidArgumentError("adamw: no weight requires a gradient");
  std::unique_ptr<AdamW> adamw(new AdamW(options));
  const at::TensorOptions flat = trained[0].value.options().dtype(at::kFloat).requires_grad(false);
  HONE_RETURN_IF_ERROR(policy::CatchTorch("adamw", [&] {
    adamw->gradients_ = at::zeros({total}, flat);
    adamw->exp_avg_ = at::zeros({total}, flat);
    adamw->exp_avg_sq_ = at::zeros({total}, flat);
    if (any_half) adamw->masters_ = at::zeros({total}, flat);
    return true;
  }).status());
  adamw->groups_ = {Group{options.weight_decay}, Group{0.0}};
  int64_t offset = 0;
  for (const policy::Leaf& leaf : trained) {
    const auto view = [&](const at::Tensor& buffer) {
      return buffer.narrow(0, offset, leaf.value.numel()).view(leaf.value.sizes());
    };
    Group& group = adamw->groups_[leaf.decay ? 0 : 1];
    at::Tensor value = leaf.value;
    value.mutable_grad() = view(adamw->gradients_);
    group.values.push_back(value);
    if (IsHalf(value)) {
      group.masters.push_back(view(adamw->masters_));
      group.masters.back().copy_(value.detach());
    } else {
      group.masters.push_back(value);
    }
    group.gradients.push_back(view(adamw->gradients_));
    group.exp_avg.push_back(view(adamw->exp_avg_));
    group.exp_avg_sq.push_back(view(adamw->exp_avg_sq_));
    group.steps.push_back(at::zeros({}, flat));
    offset += Padded(leaf.value.numel());
  }
  return adamw;
}

void AdamW::ZeroGradients() { gradients_.zero_(); }

double AdamW::GradientNorm() const {
  return at::linalg_vector_norm(gradients_, 2, std::nullopt, false, at::kDouble).item<double>();
}

void AdamW::ScaleGradients(double factor) { gradients_.mul_(factor); }

absl::Status AdamW::Step(double learning_rate) {
  at::NoGradGuard no_grad;
  return policy::CatchTorch("adamw", [&] {
    ++steps_;
    for (Group& group : groups_) {
      if (group.values.empty()) continue;
      for (at::Tensor& step : group.steps) step.fill_(static_cast<double>(steps_));
      at::_fused_adamw_(group.masters, group.gradients, group.exp_avg, group.exp_avg_sq, {}, group.steps, learning_rate,
                        options_.beta1, options_.beta2, group.weight_decay, options_.epsilon, /*amsgrad=*/false,
                        /*maximize=*/false);
      // The fused operator leaves version counters alone; the model's packed copies are keyed by them.
      for (const at::Tensor& value : group.values) value.unsafeGetTensorImpl()->bump_version();
    }
    RoundMasters();
    return true;
  }).status();
}

void AdamW::RoundMasters() {
  if (!masters_.defined()) return;
  for (Group& group : groups_) {
    if (!group.values.empty()) at::_foreach_copy_(group.values, group.masters);
  }
}

std::vector<std::pair<std::string, at::Tensor>> AdamW::State() const {
  std::vector<std::pair<std::string, at::Tensor>> state{{"exp_avg", exp_avg_}, {"exp_avg_sq", exp_avg_sq_}};
  if (masters_.defined()) state.emplace_back("master", masters_);
  return state;
}

absl::Status AdamW::Restore(const std::vector<std::pair<std::string, at::Tensor>>& state, int64_t steps) {
  for (auto& [name, own] : State()) {
    const at::Tensor* found = nullptr;
    for (const auto& [given_name, tensor] : state) {
      if (given_name == name) found = &tensor;
    }
    if (found == nullptr) return absl::InvalidArgumentError(absl::StrCat("optimizer state ", name, " is missing"));
    if (found->sizes() != own.sizes()) {
      return absl::InvalidArgumentError(absl::StrCat("optimizer state ", name, " has ", found->numel(), " numbers, the model needs ", own.numel()));
    }
  }
  at::NoGradGuard no_grad;
  for (auto& [name, own] : State()) {
    for (const auto& [given_name, tensor] : state) {
      if (given_name == name) own.copy_(tensor);
    }
  }
  RoundMasters();
  steps_ = steps;
  return absl::OkStatus();
}

}  // namespace hone::trainer
