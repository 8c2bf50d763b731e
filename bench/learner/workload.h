#pragma once

// What the learner's benches measure: shapes of published models with random weights, random sequences, and how FLOP
// are counted: as trainer/loop/flops.h says, so that training costs 6 N + 12 L d s a token. Peak: an H200's in bf16 without
// sparsity, 989e12.

#include <algorithm>
#include <chrono>
#include <string>
#include <vector>

#include "cmake/torch_pch.h"
#include "policy/model/decoder.h"
#include "policy/model/device.h"
#include "trainer/data/sequence.h"
#include "trainer/loop/flops.h"

namespace hone::bench {

constexpr double kPeakFlops = 989e12;

inline policy::ModelConfig Shape(int64_t vocab, int64_t hidden, int64_t intermediate, int64_t layers, int64_t heads,
                                 int64_t kv_heads, int64_t head_dim) {
  policy::ModelConfig config;
  config.vocab_size = vocab;
  config.hidden_size = hidden;
  config.intermediate_size = intermediate;
  config.num_hidden_layers = layers;
  config.num_attention_heads = heads;
  config.num_key_value_heads = kv_heads;
  config.head_dim = head_dim;
  config.max_position_embeddings = 32768;
  config.rope.theta = 1e6;
  return config;
}

inline policy::ModelConfig Qwen1_5B() {
  policy::ModelConfig config = Shape(151936, 1536, 8960, 28, 12, 2, 128);
  config.family = "qwen2";
  config.attention_bias = true;
  return config;
}

inline policy::ModelConfig Qwen8B() {
  policy::ModelConfig config = Shape(151936, 4096, 12288, 36, 32, 8, 128);
  config.family = "qwen3";
  config.query_key_norm = true;
  config.tie_word_embeddings = false;
  return config;
}

inline double FlopsPerToken(const policy::Decoder& decoder, int64_t length, int64_t passes) {
  return trainer::PassFlops(decoder, {length}, passes) / static_cast<double>(length);
}

/// The same numbers on every device of one kind.
inline void FillRandom(policy::Decoder& decoder) {
  at::manual_seed(1);
  at::NoGradGuard no_grad;
  for (const policy::NamedTensor& named : decoder.parameters().named()) {
    at::Tensor tensor = named.tensor;
    tensor.dim() == 1 ? tensor.fill_(named.name.find("norm") != std::string::npos ? 1.0 : 0.0)
                      : tensor.normal_(0, 0.02);
  }
}

/// Every token is trained on, except each sequence's first.
inline std::vector<trainer::TrainSequence> Sequences(int64_t count, int64_t length, int64_t vocab) {
  std::vector<trainer::TrainSequence> out;
  uint64_t state = 1;
  for (int64_t i = 0; i < count; ++i) {
    std::vector<int32_t> ids(length + 1);  // the last one is only predicted
    for (int32_t& id : ids) {
      state = state * 6364136223846793005ull + 1442695040888963407ull;
      id = static_cast<int32_t>((state >> 33) % static_cast<uint64_t>(vocab));
    }
    out.push_back(trainer::PromptAndResponse({ids[0]}, {ids.begin() + 1, ids.end()}));
  }
  return out;
}

template <class Body>
double MedianSeconds(const at::Device& device, int warm, int runs, const Body& body) {
  std::vector<double> seconds;
  for (int i = 0; i < warm + runs; ++i) {
    policy::Synchronize(device);
    const auto start = std::chrono::steady_clock::now();
    body();
    policy::Synchronize(device);
    if (i >= warm) seconds.push_back(std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count());
  }
  std::sort(seconds.begin(), seconds.end());
  return seconds[seconds.size() / 2];
}

}  // namespace hone::bench
