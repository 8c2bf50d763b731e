#pragma once

// A small chat model in an HF folder, with random weights.

#include "tests/support/catch_torch.h"

#include <nlohmann/json.hpp>
#include <string>

#include "base/file.h"
#include "policy/model/hf_folder.h"
#include "policy/tokenizer/train_bpe.h"
#include "tests/support/tiny_model.h"

namespace hone::cli {

/// config.json, model.safetensors, tokenizer.json and tokenizer_config.json; no chat template.
inline void WriteChatModel(const std::string& folder, int64_t context) {
  policy::TrainBpeOptions options;
  options.special_tokens = {"<|im_start|>", "<|im_end|>"};
  const auto tokenizer = policy::TrainBpe({"user assistant launch"}, 300, options).value();
  policy::ModelConfig config = testing::TinyConfig();
  config.vocab_size = tokenizer->vocab_size();
  config.max_position_embeddings = context;
  REQUIRE(MakeFolders(folder).ok());
  REQUIRE(tokenizer->Save(folder).ok());
  REQUIRE(policy::SaveHfWeights(*testing::MakeDecoder(config), folder).ok());
  const nlohmann::json json = {{"model_type", "llama"},
                               {"vocab_size", config.vocab_size},
                               {"hidden_size", config.hidden_size},
                               {"intermediate_size", config.intermediate_size},
                               {"num_hidden_layers", config.num_hidden_layers},
                               {"num_attention_heads", config.num_attention_heads},
                               {"num_key_value_heads", config.num_key_value_heads},
                               {"head_dim", config.head_dim},
                               {"max_position_embeddings", context},
                               {"rms_norm_eps", config.rms_norm_eps},
                               {"tie_word_embeddings", config.tie_word_embeddings}};
  REQUIRE(WriteFileAtomically(folder + "/config.json", json.dump()).ok());
  REQUIRE(WriteFileAtomically(folder + "/tokenizer_config.json", R"({"eos_token": "<|im_end|>"})").ok());
}

}  // namespace hone::cli
