#include "absl/strings/str_cat.h"
#include "policy/model/hf_config.h"

// Llama 3.x: grouped queries, SwiGLU, frequencies stretched as in arXiv:2407.21783.

namespace hone::policy::families {

void ReadLlama(Fields& fields, ModelConfig& config) {
  config.tie_word_embeddings = fields.Bool("tie_word_embeddings", false);
  for (const char* bias : {"attention_bias", "mlp_bias"}) {
    if (fields.Bool(bias, false)) fields.Fail(absl::StrCat(bias, " = true is not supported for llama"));
  }
  if (fields.Text("hidden_act", "silu") != "silu") fields.Fail("hidden_act must be \"silu\"");
}

}  // namespace hone::policy::families
