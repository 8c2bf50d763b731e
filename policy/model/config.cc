#include "policy/model/config.h"

#include <cmath>

#include "absl/strings/str_cat.h"

namespace hone::policy {
namespace {

absl::Status Positive(const char* name, int64_t value) {
  if (value > 0) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("model config: ", name, " = ", value, ", must be at least 1"));
}

}  // namespace

double ModelConfig::Scale() const {
  return attention_scale > 0 ? attention_scale : 1.0 / std::sqrt(static_cast<double>(head_dim));
}

absl::Status Validate(const ModelConfig& c) {
  const std::pair<const char*, int64_t> counts[] = {{"vocab_size", c.vocab_size},
                                                    {"hidden_size", c.hidden_size},
                                                    {"intermediate_size", c.intermediate_size},
                                                    {"num_hidden_layers", c.num_hidden_layers},
                                                    {"num_attention_heads", c.num_attention_heads},
                                                    {"num_key_value_heads", c.num_key_value_heads},
                                                    {"head_dim", c.head_dim},
                                                    {"max_position_embeddings", c.max_position_embeddings}};
  for (const auto& [name, value] : counts) {
    if (absl::Status status = Positive(name, value); !status.ok()) return status;
  }
  if (c.num_attention_heads % c.num_key_value_heads != 0) {
    return absl::InvalidArgumentError(absl::StrCat("model config: num_attention_heads = ", c.num_attention_heads,
                                                   " is not a multiple of num_key_value_heads = ",
                                                   c.num_key_value_heads));
  }
  if (c.head_dim % 2 != 0) {
    return absl::InvalidArgumentError(absl::StrCat("model config: head_dim = ", c.head_dim, ", must be even"));
  }
  if (!(c.rms_norm_eps > 0)) {
    return absl::InvalidArgumentError(absl::StrCat("model config: rms_norm_eps = ", c.rms_norm_eps, ", must be > 0"));
  }
  if (!(c.rope.theta > 0) || !(c.local_rope.theta > 0)) {
    return absl::InvalidArgumentError("model config: rope_theta must be > 0");
  }
  if (!c.layer_is_local.empty()) {
    if (static_cast<int64_t>(c.layer_is_local.size()) != c.num_hidden_layers) {
      return absl::InvalidArgumentError(absl::StrCat("model config: layer_types has ", c.layer_is_local.size(),
                                                     " entries for ", c.num_hidden_layers, " layers"));
    }
    return Positive("sliding_window", c.sliding_window);
  }
  return absl::OkStatus();
}

}  // namespace hone::policy
