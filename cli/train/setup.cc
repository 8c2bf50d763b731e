#include "cli/train/setup.h"

#include <algorithm>
#include <thread>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "cli/train/chat_language.h"
#include "cli/train/program_language.h"
#include "policy/model/device.h"
#include "policy/model/threads.h"

namespace hone::cli {
namespace {

constexpr int64_t kCpuCacheBytes = int64_t{256} << 20;

absl::StatusOr<std::unique_ptr<Prompter>> MakePrompter(const PolicySettings& settings, const std::string& folder) {
  if (settings.prompts == "program") return ProgramLanguage::Load(folder);
  return ChatLanguage::Load(folder, rollout::PromptOptions(), {settings.thinking, settings.example == "auto"});
}

rollout::NativeEngineOptions EngineOptions(const EngineSettings& settings, const at::Device& device) {
  rollout::NativeEngineOptions options;
  options.max_running = settings.max_running;
  options.prefill_tokens = settings.prefill_tokens;
  options.cache_bytes = static_cast<int64_t>(settings.cache_gb * 1e9);
  // A sixth: the learner needs much of the rest, and a verifier on the same GPU keeps inputs there, up to half of it.
  if (settings.cache_gb == 0) options.cache_bytes = device.is_cpu() ? kCpuCacheBytes : policy::FreeBytes(device) / 6;
  return options;
}

absl::StatusOr<policy::DecoderOptions> DecoderOptionsOf(const ModelSettings& model) {
  const DeviceSettings& settings = model.device;
  HONE_ASSIGN_OR_RETURN(const at::Device device, policy::FindDevice(settings.device));
  const bool half = settings.dtype != "fp32";
  if (half == device.is_cpu()) {
    return absl::InvalidArgumentError(absl::StrCat("device.dtype: ", settings.dtype, " is not sampled from on ", settings.device,
                                                   ", allowed ", half ? "fp32" : "bf16 and fp16"));
  }
  policy::DecoderOptions options;
  options.device = device;
  options.dtype = TypeNamed(settings.dtype);
  options.checkpoint_activations = settings.checkpoint_activations;
  options.separate_layers = model.separate_layers;
  return options;
}

}  // namespace

absl::StatusOr<PolicySetup> PolicySetup::Create(const PolicySettings& settings, const ModelSettings& model, int64_t threads,
                                                int64_t seed) {
  if (settings.start.empty()) {
    return absl::InvalidArgumentError("policy.start is not set: an HF folder, a run's folder or a checkpoint");
  }
  HONE_ASSIGN_OR_RETURN(const policy::DecoderOptions options, DecoderOptionsOf(model));
  HONE_ASSIGN_OR_RETURN(StartingPolicy start, LoadStart(settings.start, options));
  if (!settings.adapter.empty()) start.adapter = settings.adapter;
  return Around(std::move(start), settings, model, threads, seed);
}

absl::StatusOr<PolicySetup> PolicySetup::CreateWithoutWeights(const std::string& folder, const PolicySettings& settings,
                                                              const ModelSettings& model, int64_t threads, int64_t seed) {
  HONE_ASSIGN_OR_RETURN(const policy::DecoderOptions options, DecoderOptionsOf(model));
  HONE_ASSIGN_OR_RETURN(StartingPolicy start, StartWithoutWeights(folder, options));
  return Around(std::move(start), settings, model, threads, seed);
}

absl::StatusOr<PolicySetup> PolicySetup::Around(StartingPolicy start, const PolicySettings& settings,
                                                const ModelSettings& model, int64_t threads, int64_t seed) {
  policy::SetComputeThreads(threads > 0 ? static_cast<int>(threads) : static_cast<int>(std::thread::hardware_concurrency()));
  policy::SeedOperators(static_cast<uint64_t>(seed));
  PolicySetup setup;
  setup.settings_ = settings;
  setup.engine_settings_ = model.engine;
  setup.seed_ = seed;
  setup.running_ = model.engine.max_running;
  setup.device_ = model.device.device;
  setup.start_ = std::move(start);
  HONE_RETURN_IF_ERROR(setup.PutOnAdapter(model.lora));
  HONE_ASSIGN_OR_RETURN(setup.prompter_, MakePrompter(settings, setup.start_.folder));
  if (model.samples) HONE_RETURN_IF_ERROR(setup.RemakeEngine());
  return setup;
}

absl::Status PolicySetup::RemakeEngine() {
  engine_.reset();
  const at::Device device = start_.decoder->parameters().leaves()[0].value.device();
  HONE_ASSIGN_OR_RETURN(engine_, rollout::NativeEngine::Create(EngineOptions(engine_settings_, device), *start_.decoder));
  return absl::OkStatus();
}

absl::Status PolicySetup::PutOnAdapter(const LoraSettings& settings) {
  policy::Decoder& decoder = *start_.decoder;
  const at::Tensor& some = decoder.parameters().leaves()[0].value;
  const at::TensorOptions tensors = at::TensorOptions(some.device()).dtype(some.scalar_type());
  if (!start_.adapter.empty()) {
    HONE_ASSIGN_OR_RETURN(adapter_, policy::Lora::Load(decoder.config(), start_.adapter, tensors));
    if (settings.rank > 0 && settings.rank != adapter_->options().rank) {
      return absl::InvalidArgumentError(absl::StrCat("lora.rank: ", settings.rank, ", but the adapter in ", start_.adapter,
                                                     " has rank ", adapter_->options().rank));
    }
  } else if (settings.rank > 0) {
    policy::LoraOptions options;
    options.rank = settings.rank;
    options.alpha = settings.alpha;
    options.targets = settings.targets;
    HONE_ASSIGN_OR_RETURN(adapter_, policy::Lora::Create(decoder.config(), options, tensors, static_cast<uint64_t>(seed_)));
  }
  if (adapter_ == nullptr) return absl::OkStatus();
  for (const policy::Leaf& leaf : decoder.parameters().leaves()) {
    at::Tensor value = leaf.value;
    value.set_requires_grad(false);
  }
  decoder.UseLora(adapter_.get());
  return absl::OkStatus();
}

absl::Status PolicySetup::ConnectVerifier(const VerifierSettings& verifier, const std::string& log_path) {
  verifier_settings_ = verifier;
  HONE_ASSIGN_OR_RETURN(verifier_, StartVerifier(verifier, log_path));
  return absl::OkStatus();
}

absl::Status PolicySetup::Connect(const VerifierSettings& verifier, const TaskSettings& tasks, double named_share,
                                  const std::string& log_path) {
  HONE_RETURN_IF_ERROR(ConnectVerifier(verifier, log_path));
  const uint64_t task_seed = static_cast<uint64_t>(seed_) * 2 + 1;
  if (tasks.from == "generated") {
    problems_ = GeneratedProblems(task_seed, named_share);
    return absl::OkStatus();
  }
  HONE_ASSIGN_OR_RETURN(problems_, CollectedProblems(tasks, task_seed, *verifier_.client));
  return absl::OkStatus();
}

RolloutParts PolicySetup::Parts(std::vector<Baseline> baselines) const {
  const int64_t model = start_.decoder->config().max_position_embeddings;
  const int64_t context = settings_.context > 0 ? std::min(settings_.context, model) : model;
  return {problems_.get(), prompter_.get(), engine_.get(), verifier_.client.get(), VerifyWith(verifier_settings_, std::move(baselines)),
          verifier_.capabilities, context, seed_, TimesOnGpuOf(device_, verifier_settings_), {}};
}

std::vector<Baseline> PolicySetup::ReportedBaselines() const {
  if (verifier_settings_.devices[0] == "cpu") return {Baseline::kScalar, Baseline::kEager};
  return {Baseline::kEager};
}

}  // namespace hone::cli
