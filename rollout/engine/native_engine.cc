#include "rollout/engine/native_engine.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "cmake/torch_pch.h"
#include "policy/model/device.h"
#include "policy/model/torch_status.h"
#include "rollout/engine/cpu_runner.h"
#ifdef HONE_WITH_CUDA
#include "rollout/engine/cuda/cuda_runner.h"
#endif

namespace hone::rollout {
namespace {

absl::StatusOr<std::unique_ptr<Runner>> MakeRunner(const NativeEngineOptions& options, policy::Decoder& decoder) {
  if (decoder.parameters().flat().is_cuda()) {
#ifdef HONE_WITH_CUDA
    return CudaRunner::Create({.max_rows = options.max_running,
                               .prefill_tokens = options.prefill_tokens,
                               .cache_bytes = options.cache_bytes,
                               .deterministic = options.deterministic},
                              decoder);
#else
    return absl::UnimplementedError("engine: this build has no CUDA; configure with the gpu preset");
#endif
  }
  return CpuRunner::Create({options.max_running, options.prefill_tokens, options.cache_bytes}, decoder);
}

}  // namespace

absl::StatusOr<std::unique_ptr<NativeEngine>> NativeEngine::Create(const NativeEngineOptions& options, policy::Decoder& decoder) {
  for (const auto& [name, value] : {std::pair<const char*, int64_t>{"max_running", options.max_running},
                                    {"prefill_tokens", options.prefill_tokens}}) {
    if (value < 1) return absl::InvalidArgumentError(absl::StrCat("engine: ", name, " = ", value, ", allowed >= 1"));
  }
  HONE_ASSIGN_OR_RETURN(std::unique_ptr<Runner> runner, MakeRunner(options, decoder));
  return std::unique_ptr<NativeEngine>(new NativeEngine(decoder, std::move(runner)));
}

NativeEngine::~NativeEngine() = default;

absl::Status NativeEngine::Check(const GenerationRequest& request) const {
  const policy::ModelConfig& config = decoder_.config();
  const auto bad = [](auto&&... parts) { return absl::InvalidArgumentError(absl::StrCat(parts...)); };
  for (int32_t id : request.prompt_ids) {
    if (id < 0 || id >= config.vocab_size) return bad("prompt id ", id, " is outside [0, ", config.vocab_size, ")");
  }
  const int64_t longest = static_cast<int64_t>(request.prompt_ids.size()) + request.sampling.max_tokens;
  if (longest > config.max_position_embeddings) {
    return bad("prompt of ", request.prompt_ids.size(), " tokens plus max_tokens = ", request.sampling.max_tokens,
               " is over the context of ", config.max_position_embeddings);
  }
  return absl::OkStatus();
}

absl::StatusOr<std::vector<std::vector<Sample>>> NativeEngine::Generate(absl::Span<const GenerationRequest> requests,
                                                                        const GenerateOptions& options) {
  if (!weights_whole_) return absl::FailedPreconditionError("engine: the weights are those of an update that failed");
  HONE_RETURN_IF_ERROR(runner_->RestoreCache());
  std::vector<std::vector<Sample>> results(requests.size());
  absl::Status status;
  scheduler_.set_read_first(true);
  // Weights that are trained in place may have changed without a new version (before a first step, in supervised training):
  // keys and values of the old ones must not be used again.
  int64_t changes = decoder_.parameters().flat()._version();
  if (decoder_.lora() != nullptr) {
    for (const policy::Leaf& leaf : decoder_.lora()->leaves()) changes += leaf.value._version();
  }
  policy::Synchronize(decoder_.parameters().flat().device());  // a learner's last update may still be under way
  if (changes != weights_seen_) scheduler_.DropPrefixes();
  weights_seen_ = changes;
  for (size_t i = 0; i < requests.size() && status.ok(); ++i) {
    results[i].resize(std::max<int64_t>(0, requests[i].samples));
    RequestEvents events;
    events.on_sample = [&, i](size_t sample, const Sample& result) {
      results[i][sample] = result;
      if (options.on_sample) options.on_sample(i, sample, result);
    };
    if (options.stop) events.on_token = [&, i](size_t sample, const Sample& so_far) { return options.stop(i, sample, so_far); };
    status = Check(requests[i]);
    if (status.ok()) status = scheduler_.Submit(requests[i], std::move(events)).status();
    if (!status.ok()) status = absl::Status(status.code(), absl::StrCat("request ", i, ": ", status.message()));
  }
  while (status.ok() && !scheduler_.idle()) {
    if (options.abort != nullptr && options.abort->load()) break;
    status = scheduler_.Step();
  }
  if (status.ok()) {
    HONE_RETURN_IF_ERROR(scheduler_.AbortAll());
    HONE_RETURN_IF_ERROR(runner_->Synchronize());  // weights may change now
    return results;
  }
  scheduler_.Forget();
  return status;
}

absl::Status NativeEngine::SetPolicyVersion(int64_t version) {
  if (version < scheduler_.version()) {
    return absl::InvalidArgumentError(absl::StrCat("policy version ", version, " is older than ", scheduler_.version()));
  }
  scheduler_.set_version(version);
  return absl::OkStatus();
}

absl::Status NativeEngine::ReleaseMemory() {
  if (!scheduler_.idle()) return absl::FailedPreconditionError("engine: samples are running, their keys and values are needed");
  scheduler_.DropPrefixes();
  return runner_->ReleaseCache();
}

absl::Status NativeEngine::UpdateWeights(const at::Tensor& weights, int64_t version) {
  const at::Tensor& own = decoder_.parameters().flat();
  if (weights.numel() != own.numel()) {
    return absl::InvalidArgumentError(absl::StrCat("weights of ", weights.numel(), " numbers, the model has ", own.numel()));
  }
  HONE_RETURN_IF_ERROR(SetPolicyVersion(version));
  scheduler_.DropPrefixes();
  HONE_RETURN_IF_ERROR(runner_->Synchronize());
  HONE_RETURN_IF_ERROR(policy::CatchTorch("weight update", [&] {
                         at::NoGradGuard no_grad;
                         at::Tensor to = own;
                         to.copy_(weights.view_as(own));
                         return true;
                       }).status());
  return runner_->Synchronize();
}

absl::Status NativeEngine::UpdateWeights(const std::function<absl::StatusOr<int64_t>()>& write) {
  HONE_RETURN_IF_ERROR(runner_->Synchronize());
  scheduler_.DropPrefixes();
  const absl::StatusOr<int64_t> version = write();
  if (absl::IsFailedPrecondition(version.status())) return version.status();
  weights_whole_ = false;
  HONE_RETURN_IF_ERROR(version.status());
  HONE_RETURN_IF_ERROR(runner_->Synchronize());
  HONE_RETURN_IF_ERROR(SetPolicyVersion(*version));
  weights_whole_ = true;
  return absl::OkStatus();
}

}  // namespace hone::rollout
