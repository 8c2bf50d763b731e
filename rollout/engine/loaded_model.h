#pragma once

// A model folder ready to generate: weights, tokenizer, chat template and engine on one device. No torch in this header.

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "policy/chat/chat_template.h"
#include "policy/tokenizer/tokenizer.h"
#include "rollout/engine/scheduler.h"

namespace hone::rollout {

struct LoadedModelOptions {
  std::string folder;             // HF: config.json, model*.safetensors, tokenizer.json
  std::string device = "auto";    // "cpu", "cuda", "cuda:1"; auto: cuda where this build and machine have it
  bool fp32 = false;              // weights on the CPU; else bf16, which is read twice as fast
  int64_t max_running = 256;
  int64_t cache_bytes = 0;        // 0: most of the GPU's free memory; 1 GiB on a CPU
  bool deterministic = false;
};

class LoadedModel {
 public:
  /// Errors of LoadHfFolder, Tokenizer::Load, ChatTemplate::Load and NativeEngine::Create. A folder without a chat template
  /// gets ChatML. kInvalidArgument: a GGUF file (says how to convert it), a device that is not there.
  static absl::StatusOr<std::unique_ptr<LoadedModel>> Load(const LoadedModelOptions& options);
  ~LoadedModel();

  const policy::Tokenizer& tokenizer() const;
  const policy::ChatTemplate& chat() const;
  Scheduler& scheduler();
  absl::Status Check(const GenerationRequest& request) const;  // against the model: ids, context
  int64_t context() const;              // tokens of prompt and answer that fit model and cache
  const std::vector<int32_t>& end_ids() const;
  std::string Describe() const;         // "qwen2, 1.54 B weights, bf16 on cuda:0, cache for 1.2 M tokens"

 private:
  struct State;
  explicit LoadedModel(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace hone::rollout
