#include <cmath>

#include "nlohmann/json.hpp"
#include "policy/model/hf_config.h"

// Gemma 3, text (arXiv:2503.19786): five layers with a window to one without, two rotation bases, norms before and after
// each block whose weight is an offset from 1, queries and keys normalised, GELU gate, scaled embeddings.

namespace hone::policy::families {

void ReadGemma3(Fields& fields, ModelConfig& config) {
  config.head_dim = fields.Int("head_dim", 256);
  config.tie_word_embeddings = fields.Bool("tie_word_embeddings", true);
  config.query_key_norm = config.norm_adds_one = config.norm_after_blocks = true;
  config.activation = GateActivation::kGeluTanh;
  config.embedding_scale = std::sqrt(static_cast<double>(config.hidden_size));
  config.attention_scale = 1.0 / std::sqrt(fields.Number("query_pre_attn_scalar", 256));
  config.sliding_window = fields.Int("sliding_window", 4096);
  if (fields.Text("hidden_activation", "gelu_pytorch_tanh") != "gelu_pytorch_tanh") fields.Fail("hidden_activation must be \"gelu_pytorch_tanh\"");
  if (fields.Number("final_logit_softcapping", 0) != 0 || fields.Number("attn_logit_softcapping", 0) != 0) {
    fields.Fail("logit softcapping is not supported for gemma3");
  }
  // Rotation: rope_theta and rope_local_base_freq, or (transformers 5) rope_parameters by layer type.
  config.rope = {};
  config.rope.theta = 1e6;
  config.local_rope.theta = fields.Number("rope_local_base_freq", 10000);
  ReadRope(fields, 1e6, config.rope);
  if (const nlohmann::json* by_type = fields.Object("rope_parameters"); by_type != nullptr) {
    for (const auto& [kind, rope] : {std::pair<const char*, RopeConfig*>{"full_attention", &config.rope}, {"sliding_attention", &config.local_rope}}) {
      if (!by_type->contains(kind)) continue;
      const nlohmann::json wrapped{{"rope_parameters", (*by_type)[kind]}};
      Fields inner(wrapped, fields.name());
      ReadRope(inner, rope->theta, *rope);
      if (!inner.status().ok()) fields.Fail(std::string(inner.status().message()));
    }
  }
  const nlohmann::json* types = fields.Array("layer_types");
  const int64_t pattern = fields.Int("sliding_window_pattern", fields.Int("_sliding_window_pattern", 6));
  for (int64_t i = 0; i < config.num_hidden_layers; ++i) {
    const bool named = types != nullptr && i < static_cast<int64_t>(types->size());
    config.layer_is_local.push_back(named ? (*types)[i] == "sliding_attention" : pattern > 0 && (i + 1) % pattern != 0);
  }
}

}  // namespace hone::policy::families
