#pragma once

// Small decoders for tests.

#include "cmake/torch_pch.h"
#include "policy/model/decoder.h"

namespace hone::testing {

inline policy::ModelConfig TinyConfig() {
  policy::ModelConfig config;
  config.vocab_size = 37;
  config.hidden_size = 48;
  config.intermediate_size = 72;
  config.num_hidden_layers = 2;
  config.num_attention_heads = 4;
  config.num_key_value_heads = 2;
  config.head_dim = 12;
  config.max_position_embeddings = 256;
  config.initializer_range = 0.2;  // far from uniform, so that differences show
  return config;
}

inline std::unique_ptr<policy::Decoder> MakeDecoder(const policy::ModelConfig& config, uint64_t seed = 7,
                                                    at::ScalarType dtype = at::kFloat) {
  at::set_num_threads(1);  // threads cost more than they give at this size
  std::unique_ptr<policy::Decoder> decoder = policy::Decoder::Create(config, {at::kCPU, dtype}).value();
  decoder->parameters().Initialize(seed);
  return decoder;
}

}  // namespace hone::testing
