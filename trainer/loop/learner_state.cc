#include "trainer/loop/learner_state.h"

#include <algorithm>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "policy/model/torch_status.h"

namespace hone::trainer {
namespace {

constexpr char kModel[] = "model/", kOptimizer[] = "optimizer/", kGenerator[] = "rng/torch_cpu", kLora[] = "lora/";

at::Generator TorchGenerator() { return at::globalContext().defaultGenerator(at::kCPU); }

}  // namespace

void AddLearnerState(Learner& learner, CheckpointData& data) {
  data.step = learner.step();
  const policy::Lora* lora = learner.decoder().lora();
  if (lora == nullptr) {
    for (const policy::NamedTensor& named : learner.decoder().parameters().named()) {
      data.tensors.emplace_back(absl::StrCat(kModel, named.name), named.tensor);
    }
  } else {  // the rest is frozen
    for (const policy::NamedTensor& named : lora->named()) data.tensors.emplace_back(absl::StrCat(kLora, named.name), named.tensor);
  }
  for (const auto& [name, tensor] : learner.optimizer().State()) data.tensors.emplace_back(absl::StrCat(kOptimizer, name), tensor);
  at::Generator generator = TorchGenerator();
  data.tensors.emplace_back(kGenerator, generator.get_state());
  for (const auto& [name, value] : learner.Counters()) data.counters[name] = value;
}

absl::Status LoadWeights(const CheckpointData& data, policy::Decoder& decoder) {
  std::vector<policy::NamedTensor> weights;
  for (const auto& [name, tensor] : data.tensors) {
    if (absl::StartsWith(name, kModel)) weights.push_back({name.substr(sizeof(kModel) - 1), tensor});
  }
  return decoder.parameters().Load(weights);
}

namespace {

absl::Status LoadLora(const CheckpointData& data, const policy::Lora& lora) {
  at::NoGradGuard no_grad;
  for (const policy::NamedTensor& named : lora.named()) {
    at::Tensor own = named.tensor;
    const auto found = std::find_if(data.tensors.begin(), data.tensors.end(), [&](const auto& entry) { return entry.first == kLora + named.name; });
    if (found == data.tensors.end()) return absl::InvalidArgumentError(absl::StrCat("adapter weight ", named.name, " is missing"));
    if (found->second.sizes() != own.sizes()) {
      return absl::InvalidArgumentError(absl::StrCat("adapter weight ", named.name, " has ", found->second.numel(), " numbers, ", own.numel(), " are needed"));
    }
    own.copy_(found->second);
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status RestoreLearnerState(const CheckpointData& data, Learner& learner) {
  std::vector<std::pair<std::string, at::Tensor>> optimizer;
  at::Tensor generator_state;
  for (const auto& [name, tensor] : data.tensors) {
    if (absl::StartsWith(name, kOptimizer)) optimizer.emplace_back(name.substr(sizeof(kOptimizer) - 1), tensor);
    if (name == kGenerator) generator_state = tensor;
  }
  const auto steps = data.counters.find("learner/optimizer_steps");
  if (steps == data.counters.end()) return absl::InvalidArgumentError("checkpoint counter learner/optimizer_steps is missing");
  if (!generator_state.defined()) return absl::InvalidArgumentError(absl::StrCat("checkpoint tensor ", kGenerator, " is missing"));
  const policy::Lora* lora = learner.decoder().lora();
  HONE_RETURN_IF_ERROR(lora == nullptr ? LoadWeights(data, learner.decoder()) : LoadLora(data, *lora));
  HONE_RETURN_IF_ERROR(learner.optimizer().Restore(optimizer, steps->second));
  HONE_RETURN_IF_ERROR(learner.RestoreCounters(data.counters));
  return policy::CatchTorch("generator state", [&] {
    at::Generator generator = TorchGenerator();
    generator.set_state(generator_state);
    return true;
  }).status();
}

}  // namespace hone::trainer
