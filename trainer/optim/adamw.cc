#include "trainer/optim/adamw.h"

#include <cmath>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "policy/model/device.h"
#include "policy/model/torch_status.h"
#ifdef HONE_WITH_CUDA
#include "policy/model/cuda/row_kernels.h"
#endif

namespace hone::trainer {
namespace {

bool IsHalf(const at::Tensor& t) { return t.scalar_type() == at::kBFloat16 || t.scalar_type() == at::kHalf; }

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

absl::StatusOr<std::unique_ptr<AdamW>> AdamW::Create(const AdamWOptions& options,
                                                     const std::vector<policy::Leaf>& leaves) {
  HONE_RETURN_IF_ERROR(Check(options));
  std::vector<policy::Leaf> trained;
  int64_t total = 0;
  bool any_half = false;
  for (const policy::Leaf& leaf : leaves) {
    if (!leaf.value.requires_grad()) continue;
    if (leaf.value.scalar_type() != at::kFloat && !IsHalf(leaf.value)) {
      return absl::InvalidArgumentError(absl::StrCat("adamw: weight ", leaf.name, " is ",
                                                     c10::toString(leaf.value.scalar_type()),
                                                     ", allowed Float, BFloat16, Half"));
    }
    any_half = any_half || IsHalf(leaf.value);
    trained.push_back(leaf);
    total += Padded(leaf.value.numel());
  }
  if (trained.empty()) return absl::InvalidArgumentError("adamw: no weight requires a gradient");
  std::unique_ptr<AdamW> adamw(new AdamW(options));
  const at::TensorOptions flat = trained[0].value.options().dtype(at::kFloat).requires_grad(false);
  const bool pinned = options.offload && trained[0].value.is_cuda();
  const at::TensorOptions state = options.offload ? flat.device(at::kCPU).pinned_memory(pinned) : flat;
  HONE_RETURN_IF_ERROR(policy::CatchTorch("adamw", [&] {
                         adamw->gradients_ = at::zeros({total}, flat);
                         adamw->exp_avg_ = at::zeros({total}, state);
                         adamw->exp_avg_sq_ = at::zeros({total}, state);
                         if (any_half || options.offload) adamw->masters_ = at::zeros({total}, state);
                         if (options.offload) adamw->host_gradients_ = at::zeros({total}, state);
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
    if (IsHalf(value) || options.offload) {
      group.masters.push_back(view(adamw->masters_));
      group.masters.back().copy_(value.detach());
    } else {
      group.masters.push_back(value);
    }
    group.gradients.push_back(view(options.offload ? adamw->host_gradients_ : adamw->gradients_));
    group.exp_avg.push_back(view(adamw->exp_avg_));
    group.exp_avg_sq.push_back(view(adamw->exp_avg_sq_));
    group.steps.push_back(at::zeros({}, state.pinned_memory(false)));
    offset += Padded(leaf.value.numel());
  }
  return adamw;
}

void AdamW::ZeroGradients() { gradients_.zero_(); }

absl::StatusOr<double> AdamW::GradientNorm() {
  const at::ScalarType sums = gradients_.is_cpu() ? at::kDouble : at::kFloat;  // a GPU adds in a tree
  return policy::CatchTorch(
      "gradient norm", [&] { return at::linalg_vector_norm(gradients_, 2, std::nullopt, false, sums).item<double>(); });
}

void AdamW::StepGroup(Group& group, double learning_rate, double gradient_scale) {
#ifdef HONE_WITH_CUDA
  const double steps = static_cast<double>(steps_);
  if (gradients_.is_cuda() && !options_.offload) {
    for (size_t i = 0; i < group.values.size(); ++i) {
      const bool rounded = IsHalf(group.values[i]);
      const policy::cuda::AdamWArgs args{group.gradients[i].const_data_ptr<float>(),
                                         group.exp_avg[i].mutable_data_ptr<float>(),
                                         group.exp_avg_sq[i].mutable_data_ptr<float>(),
                                         group.masters[i].mutable_data_ptr<float>(),
                                         rounded ? group.values[i].mutable_data_ptr() : nullptr,
                                         group.values[i].scalar_type() == at::kHalf ? policy::cuda::HalfType::kFp16 : policy::cuda::HalfType::kBf16,
                                         group.values[i].numel(),
                                         static_cast<float>(gradient_scale),
                                         static_cast<float>(learning_rate),
                                         static_cast<float>(options_.beta1),
                                         static_cast<float>(options_.beta2),
                                         static_cast<float>(options_.epsilon),
                                         static_cast<float>(group.weight_decay),
                                         static_cast<float>(1 - std::pow(options_.beta1, steps)),
                                         static_cast<float>(std::sqrt(1 - std::pow(options_.beta2, steps)))};
      const int error = policy::cuda::AdamW(args, policy::CurrentStream(gradients_.device()));
      TORCH_CHECK(error == 0, policy::cuda::ErrorText(error));
    }
    return;
  }
#endif
  if (gradient_scale != 1) at::_foreach_mul_(group.gradients, gradient_scale);
  for (at::Tensor& step : group.steps) step.fill_(static_cast<double>(steps_));
  at::_fused_adamw_(group.masters, group.gradients, group.exp_avg, group.exp_avg_sq, {}, group.steps, learning_rate,
                    options_.beta1, options_.beta2, group.weight_decay, options_.epsilon, /*amsgrad=*/false,
                    /*maximize=*/false);
  if (masters_.defined()) at::_foreach_copy_(group.values, group.masters);
}

absl::Status AdamW::Step(double learning_rate, double gradient_scale) {
  at::NoGradGuard no_grad;
  return policy::CatchTorch("adamw",
                            [&] {
                              ++steps_;
                              if (options_.offload) host_gradients_.copy_(gradients_);
                              for (Group& group : groups_) {
                                if (group.values.empty()) continue;
                                StepGroup(group, learning_rate, gradient_scale);
                                // The fused operators leave version counters alone; the model's packed copies are keyed
                                // by them.
                                for (const at::Tensor& value : group.values)
                                  value.unsafeGetTensorImpl()->bump_version();
                              }
                              return true;
                            })
      .status();
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
      return absl::InvalidArgumentError(
          absl::StrCat("optimizer state ", name, " has ", found->numel(), " numbers, the model needs ", own.numel()));
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
