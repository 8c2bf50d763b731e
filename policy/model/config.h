#pragma once

// What a decoder transformer is made of. A family file (policy/model/families) fills this from HF's config.json; the
// shared blocks read only this, so that a new family is one small file.

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"

namespace hone::policy {

enum class GateActivation { kSilu, kGeluTanh };

/// Llama 3.1's stretching of low frequencies; factor 1 leaves them alone.
struct RopeScaling {
  double factor = 1;
  double low_freq_factor = 1;
  double high_freq_factor = 4;
  int64_t original_max_positions = 8192;
  bool linear = false;  // all frequencies divided by factor (Gemma 3's global layers); the two others are then unused
};

struct RopeConfig {
  double theta = 10000;
  RopeScaling scaling;
};

/// Names follow HF's config.json where it has one.
struct ModelConfig {
  std::string family = "llama";
  int64_t vocab_size = 0;
  int64_t hidden_size = 0;
  int64_t intermediate_size = 0;
  int64_t num_hidden_layers = 0;
  int64_t num_attention_heads = 0;
  int64_t num_key_value_heads = 0;
  int64_t head_dim = 0;
  int64_t max_position_embeddings = 0;
  double rms_norm_eps = 1e-6;
  bool tie_word_embeddings = true;

  bool attention_bias = false;       // on q, k, v (Qwen2)
  bool query_key_norm = false;       // RMSNorm over head_dim before the rotation (Qwen3, Gemma 3)
  double attention_scale = 0;        // 0: 1 / sqrt(head_dim)
  GateActivation activation = GateActivation::kSilu;
  bool norm_adds_one = false;        // y = x_hat * (1 + weight) (Gemma)
  bool norm_after_blocks = false;    // further norms on each block's output (Gemma 3)
  double embedding_scale = 1;        // sqrt(hidden_size) in Gemma
  RopeConfig rope;                   // layers that see everything
  RopeConfig local_rope;             // layers with a window
  int64_t sliding_window = 0;        // positions seen, the own one included
  std::vector<bool> layer_is_local;  // empty: none; else one a layer

  std::vector<int32_t> eos_token_ids;
  double initializer_range = 0.02;

  double Scale() const;  // of the attention scores
  bool IsLocal(int64_t layer) const { return !layer_is_local.empty() && layer_is_local[layer]; }
  /// Width of the fused query, key and value row.
  int64_t QkvSize() const { return (num_attention_heads + 2 * num_key_value_heads) * head_dim; }
};

/// kInvalidArgument names the field, its value and what is allowed.
absl::Status Validate(const ModelConfig& config);

}  // namespace hone::policy
