// Tokens per second of the CPU learner and engine at the quickstart's shapes. Prints one JSON object a line.

#include <chrono>
#include <cstdio>

#include "cmake/torch_pch.h"
#include "rollout/engine/native_engine.h"
#include "trainer/loop/rl_trainer.h"
#include "trainer/loop/sft_trainer.h"

namespace hone {
namespace {

policy::ModelConfig Shape(int64_t hidden) {
  policy::ModelConfig config;
  config.vocab_size = 400;
  config.hidden_size = hidden;
  config.intermediate_size = hidden * 8 / 3 / 32 * 32;
  config.num_hidden_layers = 4;
  config.num_attention_heads = hidden / 32;
  config.num_key_value_heads = hidden / 32;
  config.head_dim = 32;
  config.max_position_embeddings = 512;
  return config;
}

double Seconds(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

std::vector<trainer::TrainSequence> Sequences(int64_t count, int64_t length, double advantage) {
  std::vector<trainer::TrainSequence> out;
  for (int64_t i = 0; i < count; ++i) {
    std::vector<int32_t> prompt(20), response(length - 20);
    for (int32_t t = 0; t < 20; ++t) prompt[t] = (i * 31 + t * 7) % 400;
    for (size_t t = 0; t < response.size(); ++t) response[t] = (i * 13 + static_cast<int32_t>(t) * 11) % 400;
    out.push_back(trainer::PromptAndResponse(prompt, response));
    out.back().rollout_log_probs.assign(out.back().ids.size(), -6.0f);
    out.back().advantage = i % 2 == 0 ? advantage : -advantage;
  }
  return out;
}

void Run(int64_t hidden) {
  const auto decoder = policy::Decoder::Create(Shape(hidden)).value();
  decoder->parameters().Initialize(1);
  std::printf("{\"hidden\": %ld, \"parameters\": %ld}\n", hidden, decoder->parameters().count());

  auto sft = trainer::SftTrainer::Create({}, *decoder).value();
  const auto sequences = Sequences(29, 90, 0);  // 2.6 k tokens
  for (int warm = 0; warm < 3; ++warm) sft->Step(sequences).value();
  auto start = std::chrono::steady_clock::now();
  constexpr int kSteps = 15;
  for (int i = 0; i < kSteps; ++i) sft->Step(sequences).value();
  std::printf("{\"hidden\": %ld, \"sft_tok_s\": %.0f}\n", hidden, kSteps * 29 * 90 / Seconds(start));

  auto rl = trainer::RlTrainer::Create({}, *decoder).value();
  const auto samples = Sequences(64, 90, 1);  // 64 x (20 + 70)
  for (int warm = 0; warm < 2; ++warm) rl->Step(samples).value();
  start = std::chrono::steady_clock::now();
  for (int i = 0; i < 5; ++i) rl->Step(samples).value();
  std::printf("{\"hidden\": %ld, \"grpo_step_s\": %.3f}\n", hidden, Seconds(start) / 5);

  decoder->parameters().Initialize(1);
  const auto engine = rollout::NativeEngine::Create({}, *decoder).value();
  std::vector<rollout::GenerationRequest> requests;
  for (int i = 0; i < 8; ++i) {
    requests.push_back({std::vector<int32_t>(30, i), 8, static_cast<uint64_t>(i), {}});
    requests.back().sampling.max_tokens = 100;
  }
  engine->Generate(requests, {}).value();
  start = std::chrono::steady_clock::now();
  for (int i = 0; i < 4; ++i) engine->Generate(requests, {}).value();
  std::printf("{\"hidden\": %ld, \"sample_b64_tok_s\": %.0f}\n", hidden, 4 * 6400 / Seconds(start));
}

}  // namespace
}  // namespace hone

int main() {
  for (int64_t hidden : {128, 192}) hone::Run(hidden);
  return 0;
}
