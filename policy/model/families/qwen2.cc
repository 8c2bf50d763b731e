#include "policy/model/hf_config.h"

// Qwen2 and 2.5 (arXiv:2407.10671): as Llama, with biases on query, key and value.

namespace hone::policy::families {

void ReadQwen2(Fields& fields, ModelConfig& config) {
  config.attention_bias = true;
  config.tie_word_embeddings = fields.Bool("tie_word_embeddings", false);
  if (fields.Text("hidden_act", "silu") != "silu") fields.Fail("hidden_act must be \"silu\"");
  if (fields.Bool("use_sliding_window", false)) fields.Fail("use_sliding_window = true is not supported for qwen2");
}

}  // namespace hone::policy::families
