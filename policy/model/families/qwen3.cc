#include "policy/model/hf_config.h"

// Qwen3 (arXiv:2505.09388): as Llama, with queries and keys normalised by head.

namespace hone::policy::families {

void ReadQwen3(Fields& fields, ModelConfig& config) {
  config.query_key_norm = true;
  config.head_dim = fields.Int("head_dim", 128);
  config.tie_word_embeddings = fields.Bool("tie_word_embeddings", false);
  if (fields.Bool("attention_bias", false)) fields.Fail("attention_bias = true is not supported for qwen3");
  if (fields.Text("hidden_act", "silu") != "silu") fields.Fail("hidden_act must be \"silu\"");
  if (fields.Bool("use_sliding_window", false)) fields.Fail("use_sliding_window = true is not supported for qwen3");
}

}  // namespace hone::policy::families
