#pragma once

// A decoder transformer as published (Llama, Qwen2, Qwen3, Gemma 3): one forward pass for learner and rollout alike.
// What differs between the two, where earlier keys and values lie, is the Attention handed in.

#include <cstdint>
#include <memory>
#include <vector>

#include "ATen/core/Tensor.h"
#include "absl/status/statusor.h"
#include "policy/model/attention.h"
#include "policy/model/config.h"
#include "policy/model/ops.h"
#include "policy/model/parameters.h"

namespace hone::policy {

struct DecoderOptions {
  at::Device device = at::kCPU;
  at::ScalarType dtype = at::kFloat;
};

/// Not thread-safe: one forward at a time. The weights are shared, in memory, with whoever holds the decoder.
class Decoder {
 public:
  static absl::StatusOr<std::unique_ptr<Decoder>> Create(const ModelConfig& config, const DecoderOptions& options = {});

  const ModelConfig& config() const { return config_; }
  Parameters& parameters() { return *parameters_; }
  const Parameters& parameters() const { return *parameters_; }

  /// Last hidden states after the final norm, [tokens, hidden_size], with autograd history when grad mode is on.
  /// ids, positions [tokens] int64. kInvalidArgument: an id outside the vocabulary or a position outside the context
  /// (CPU ids only). kInternal: the operator's message.
  absl::StatusOr<at::Tensor> Hidden(const at::Tensor& ids, const at::Tensor& positions, Attention& attention);

  /// [rows, vocab_size] in fp32 (fp64 for an fp64 model).
  absl::StatusOr<at::Tensor> Logits(const at::Tensor& hidden);

  /// log pi(target | hidden) at `temperature`, and the entropy. See ops.h.
  absl::StatusOr<LogProbs> TargetLogProbs(const at::Tensor& hidden, const at::Tensor& targets, double temperature);

 private:
  struct Layer {
    at::Tensor input_norm, qkv, qkv_bias, query_norm, key_norm, output, attention_norm, mlp_norm, gate_up, down, mlp_after;
    PackedWeight packed_qkv, packed_output, packed_gate_up, packed_down;
    AttentionShape shape;
    bool local = false;
  };
  /// cos, sin [tokens, head_dim / 2] fp32 (fp64 for an fp64 model)
  struct Angles {
    at::Tensor cos, sin;
  };

  explicit Decoder(const ModelConfig& config) : config_(config) {}
  void BindLayers();
  at::Tensor HiddenOrThrow(const at::Tensor& ids, const at::Tensor& positions, Attention& attention);
  at::Tensor Block(int64_t index, const at::Tensor& x, const Angles& angles, Attention& attention);
  at::Tensor NormalizeHeads(const at::Tensor& qkv, const Layer& layer) const;
  at::Tensor Norm(const at::Tensor& x, const at::Tensor& weight) const;
  Angles AnglesFor(const at::Tensor& positions, const at::Tensor& inverse_frequencies) const;

  ModelConfig config_;
  std::unique_ptr<Parameters> parameters_;
  at::Tensor embedding_, head_, final_norm_;
  PackedWeight packed_head_;
  std::vector<Layer> layers_;
  at::Tensor inverse_frequencies_, local_inverse_frequencies_;  // [head_dim / 2] fp64
};

}  // namespace hone::policy
