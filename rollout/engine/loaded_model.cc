#include "rollout/engine/loaded_model.h"

#include <algorithm>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/status_macros.h"
#include "cmake/torch_pch.h"
#include "policy/model/device.h"
#include "policy/model/hf_folder.h"
#include "policy/model/torch_status.h"
#include "rollout/engine/native_engine.h"
namespace hone::rollout {
namespace {

constexpr int64_t kCpuCacheBytes = int64_t{1} << 30;
constexpr int64_t kWorkingBytes = int64_t{3} << 30;  // of a GPU, left for activations and graphs

absl::StatusOr<at::Device> DeviceOf(const std::string& name) {
  if (name != "auto") return policy::FindDevice(name);
  const absl::StatusOr<at::Device> gpu = policy::FindDevice("cuda");
  return gpu.ok() ? *gpu : at::Device(at::kCPU);
}

int64_t DefaultCacheBytes(const at::Device& device) {
  if (device.is_cpu()) return kCpuCacheBytes;
  const int64_t free_bytes = policy::FreeBytes(device);
  return std::max<int64_t>(int64_t{256} << 20, (free_bytes - kWorkingBytes) / 10 * 9);
}

}  // namespace

struct LoadedModel::State {
  std::unique_ptr<policy::Decoder> decoder;
  std::unique_ptr<policy::Tokenizer> tokenizer;
  std::unique_ptr<policy::ChatTemplate> chat;
  std::unique_ptr<NativeEngine> engine;
  std::vector<int32_t> end_ids;
  int64_t cache_tokens = 0;
};

LoadedModel::LoadedModel(std::unique_ptr<State> state) : state_(std::move(state)) {}
LoadedModel::~LoadedModel() = default;

absl::StatusOr<std::unique_ptr<LoadedModel>> LoadedModel::Load(const LoadedModelOptions& options) {
  if (absl::EndsWith(options.folder, ".gguf")) {
    return absl::InvalidArgumentError(absl::StrCat(options.folder, " is a GGUF file: turn it into a folder first, hone convert ", options.folder, " FOLDER"));
  }
  auto state = std::make_unique<State>();
  HONE_ASSIGN_OR_RETURN(const at::Device device, DeviceOf(options.device));
  HONE_ASSIGN_OR_RETURN(state->tokenizer, policy::Tokenizer::Load(options.folder));
  const bool half = !(options.fp32 && device.is_cpu());
  const at::ScalarType dtype = half ? at::kBFloat16 : at::kFloat;
  absl::StatusOr<std::unique_ptr<policy::ChatTemplate>> chat = policy::ChatTemplate::Load(options.folder);
  if (!chat.ok() && !absl::IsNotFound(chat.status())) return chat.status();
  state->chat = chat.ok() ? std::move(*chat) : policy::ChatTemplate::ChatMl();
  HONE_ASSIGN_OR_RETURN(state->decoder, policy::LoadHfFolder(options.folder, {device, dtype, /*fp32_activations=*/half && device.is_cpu()}));
  NativeEngineOptions engine;
  engine.max_running = options.max_running;
  engine.prefill_tokens = device.is_cpu() ? 2048 : 8192;
  engine.cache_bytes = options.cache_bytes > 0 ? options.cache_bytes : DefaultCacheBytes(device);
  engine.deterministic = options.deterministic;
  HONE_ASSIGN_OR_RETURN(state->engine, NativeEngine::Create(engine, *state->decoder));
  state->cache_tokens = state->engine->scheduler().stats().free_pages * Runner::kPagePositions;
  state->end_ids = state->decoder->config().eos_token_ids;
  for (int32_t id : state->tokenizer->special_ids().eos) state->end_ids.push_back(id);
  std::sort(state->end_ids.begin(), state->end_ids.end());
  state->end_ids.erase(std::unique(state->end_ids.begin(), state->end_ids.end()), state->end_ids.end());
  return std::unique_ptr<LoadedModel>(new LoadedModel(std::move(state)));
}

const policy::Tokenizer& LoadedModel::tokenizer() const { return *state_->tokenizer; }
const policy::ChatTemplate& LoadedModel::chat() const { return *state_->chat; }
Scheduler& LoadedModel::scheduler() { return state_->engine->scheduler(); }
absl::Status LoadedModel::Check(const GenerationRequest& request) const { return state_->engine->Check(request); }
int64_t LoadedModel::context() const { return std::min(state_->decoder->config().max_position_embeddings, state_->cache_tokens); }
const std::vector<int32_t>& LoadedModel::end_ids() const { return state_->end_ids; }

std::string LoadedModel::Describe() const {
  const policy::Parameters& parameters = state_->decoder->parameters();
  const at::Device device = parameters.flat().device();
  return absl::StrFormat("%s, %.2f B weights, %s on %s, cache for %d tokens", state_->decoder->config().family,
                         static_cast<double>(parameters.count()) / 1e9, parameters.flat().scalar_type() == at::kBFloat16 ? "bf16" : "fp32",
                         device.str(), state_->cache_tokens);
}

}  // namespace hone::rollout
