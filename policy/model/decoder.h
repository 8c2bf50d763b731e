#pragma once

// A decoder transformer as published (Llama, Qwen2, Qwen3, Gemma 3): one forward pass for learner and rollout alike.
// What differs between the two, where earlier keys and values lie, is the Attention handed in.

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "ATen/core/Tensor.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "policy/model/attention.h"
#include "policy/model/config.h"
#include "policy/model/layer_hooks.h"
#include "policy/model/lora.h"
#include "policy/model/ops.h"
#include "policy/model/parameters.h"
#include "policy/model/project.h"

namespace hone::policy {

struct DecoderOptions {
  at::Device device = at::kCPU;
  at::ScalarType dtype = at::kFloat;
  bool fp32_activations = false;  // bf16 on the CPU, for inference: weights stay bf16 in memory, all arithmetic is fp32
  bool checkpoint_activations = false;  // keep each layer's input only and compute the layer again in the backward pass
  bool separate_layers = false;         // each layer's weights in a storage of their own, so that they can be spread over ranks
};

/// Not thread-safe: one forward at a time. The weights are shared, in memory, with whoever holds the decoder.
class Decoder {
 public:
  static absl::StatusOr<std::unique_ptr<Decoder>> Create(const ModelConfig& config, const DecoderOptions& options = {});

  const ModelConfig& config() const { return config_; }
  const DecoderOptions& options() const { return options_; }
  Parameters& parameters() { return *parameters_; }
  const Parameters& parameters() const { return *parameters_; }

  /// Adds `lora` to the layers that it covers; null: the plain model, which is the reference of a policy that was started
  /// from it. Borrowed until the next call. With gradients on, only leaves that require them learn: freeze the rest.
  void UseLora(const Lora* lora);
  const Lora* lora() const { return lora_; }
  /// Tells `hooks` when weights are needed; null: nobody. Borrowed until the next call.
  void UseHooks(LayerHooks* hooks) { hooks_ = hooks; }
  /// What the optimiser trains: weights that require a gradient, of the model and of the adapter in use.
  std::vector<Leaf> TrainedLeaves() const;

  /// Of the rotation, [head_dim / 2] fp64 on the CPU; of layers with a window, or of the others.
  const at::Tensor& inverse_frequencies(bool local) const { return local ? local_inverse_frequencies_ : inverse_frequencies_; }

  /// Last hidden states after the final norm, [tokens, hidden_size], with autograd history when grad mode is on.
  /// ids, positions [tokens] int64, on any device. kInvalidArgument: an id outside the vocabulary or a position outside the context
  /// (CPU ids only). kInternal: the operator's message.
  absl::StatusOr<at::Tensor> Hidden(const at::Tensor& ids, const at::Tensor& positions, Attention& attention);

  /// [rows, vocab_size] in fp32 (fp64 for an fp64 model).
  absl::StatusOr<at::Tensor> Logits(const at::Tensor& hidden);

  /// Reads `ids` as one sequence and names the first part whose output holds a NaN or an infinity: "model.embed_tokens",
  /// "model.layers.3", "model.norm", "lm_head". Empty when all is finite.
  absl::StatusOr<std::string> FirstNonFinite(absl::Span<const int32_t> ids);

  /// log pi(target | hidden) at `temperature`, and the entropy. See ops.h.
  absl::StatusOr<LogProbs> TargetLogProbs(const at::Tensor& hidden, const at::Tensor& targets, double temperature);

 private:
  /// A linear layer.
  struct Matrix {
    at::Tensor weight, bias;
    PackedWeight packed;
    const LowRank* low_rank = nullptr;
  };
  struct Layer {
    at::Tensor input_norm, query_norm, key_norm, attention_norm, mlp_norm, mlp_after;
    Matrix qkv, output, gate_up, down;
    AttentionShape shape;
    bool local = false;
  };
  /// cos, sin [tokens, head_dim / 2] fp32 (fp64 for an fp64 model)
  struct Angles {
    at::Tensor cos, sin;
  };

  Decoder(const ModelConfig& config, const DecoderOptions& options) : config_(config), options_(options) {}
  void BindLayers();
  /// `see` hears of each part's output.
  using Watcher = std::function<void(const std::string& part, const at::Tensor& output)>;
  at::Tensor HiddenOrThrow(const at::Tensor& ids, const at::Tensor& positions, Attention& attention, const Watcher* see = nullptr);
  struct Recomputed;  // the autograd function of a layer that is computed again
  at::Tensor Layers(at::Tensor x, const at::Tensor& positions, Attention& attention, const std::shared_ptr<Attention>& kept,
                    const Watcher* see);
  at::Tensor Block(int64_t index, const at::Tensor& x, const Angles& angles, Attention& attention);
  at::Tensor Apply(Matrix& matrix, const at::Tensor& x, const Prologue& prologue);
  at::Tensor Turn(const at::Tensor& qkv, const Layer& layer, const Angles& angles) const;
  Prologue NormFirst(const at::Tensor& weight) const;
  at::Tensor NormalizeHeads(const at::Tensor& qkv, const Layer& layer) const;
  at::Tensor Norm(const at::Tensor& x, const at::Tensor& weight) const;
  Angles AnglesFor(const at::Tensor& positions, const at::Tensor& inverse_frequencies) const;

  ModelConfig config_;
  DecoderOptions options_;
  const Lora* lora_ = nullptr;
  LayerHooks* hooks_ = nullptr;
  std::unique_ptr<Parameters> parameters_;
  at::Tensor embedding_, head_, final_norm_;
  PackedWeight packed_head_;
  std::vector<Layer> layers_;
  at::Tensor inverse_frequencies_, local_inverse_frequencies_;  // [head_dim / 2] fp64
};

}  // namespace hone::policy
