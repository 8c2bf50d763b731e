#include "tests/support/catch_torch.h"

#include <chrono>
#include <cmath>
#include <cstdio>
#include <functional>
#include <vector>

#include "policy/model/device.h"
#include "rollout/engine/native_engine.h"
#include "tests/support/tiny_model.h"

// The whole engine on a GPU against the plain decoder. Skips where there is no GPU.

#define HONE_NEEDS_GPU() \
  if (const auto found = policy::FindDevice("cuda"); !found.ok()) SKIP(found.status().message())

namespace hone::rollout {
namespace {

using at::Tensor;

policy::ModelConfig Base() {
  policy::ModelConfig config;
  config.vocab_size = 5000;
  config.hidden_size = 256;
  config.intermediate_size = 512;
  config.num_hidden_layers = 3;
  config.num_attention_heads = 6;
  config.num_key_value_heads = 2;
  config.head_dim = 64;
  config.max_position_embeddings = 2048;
  config.initializer_range = 0.02;
  return config;
}

std::vector<std::pair<const char*, policy::ModelConfig>> Families() {
  std::vector<std::pair<const char*, policy::ModelConfig>> out;
  policy::ModelConfig llama = Base();
  llama.tie_word_embeddings = false;
  llama.rope.scaling = {4, 1, 4, 256, false};
  out.emplace_back("llama3", llama);
  policy::ModelConfig qwen2 = Base();
  qwen2.attention_bias = true;
  qwen2.head_dim = 128;
  out.emplace_back("qwen2", qwen2);
  policy::ModelConfig qwen3 = Base();
  qwen3.query_key_norm = true;
  qwen3.head_dim = 128;
  out.emplace_back("qwen3", qwen3);
  policy::ModelConfig gemma = Base();
  gemma.query_key_norm = true;
  gemma.head_dim = 256;
  gemma.num_attention_heads = 4;
  gemma.num_key_value_heads = 1;
  gemma.activation = policy::GateActivation::kGeluTanh;
  gemma.norm_adds_one = true;
  gemma.norm_after_blocks = true;
  gemma.embedding_scale = 16;
  gemma.local_rope.theta = 10000;
  gemma.rope.theta = 1e6;
  gemma.sliding_window = 40;
  gemma.layer_is_local = {true, false, true};
  out.emplace_back("gemma3", gemma);
  return out;
}

std::unique_ptr<policy::Decoder> Make(const policy::ModelConfig& config) {
  auto decoder = policy::Decoder::Create(config, {at::Device(at::kCUDA, 0), at::kBFloat16}).value();
  decoder->parameters().Initialize(3);
  return decoder;
}

GenerationRequest Request(int32_t length, int32_t step, int64_t samples, uint64_t seed, int64_t tokens) {
  GenerationRequest request;
  for (int32_t i = 0; i < length; ++i) request.prompt_ids.push_back((3 + i * step) % 4999);
  request.samples = samples;
  request.seed = seed;
  request.sampling.max_tokens = tokens;
  return request;
}

std::vector<std::vector<Sample>> Run(policy::Decoder& decoder, const std::vector<GenerationRequest>& requests, NativeEngineOptions options = {}) {
  return NativeEngine::Create(options, decoder).value()->Generate(requests, {}).value();
}

// log-probs of a sample's tokens by the plain decoder over the whole sequence.
std::vector<double> Score(policy::Decoder& decoder, const std::vector<int32_t>& prompt, const Sample& sample, double temperature) {
  at::NoGradGuard no_grad;
  std::vector<int64_t> ids(prompt.begin(), prompt.end());
  ids.insert(ids.end(), sample.ids.begin(), sample.ids.end());
  const int64_t length = static_cast<int64_t>(ids.size());
  policy::PackedSequences attention(at::tensor({int64_t{0}, length}, at::kLong));
  const Tensor hidden = decoder.Hidden(at::tensor(ids, at::kLong), at::arange(length, at::kLong), attention).value();
  const int64_t count = static_cast<int64_t>(sample.ids.size()), first = static_cast<int64_t>(prompt.size()) - 1;
  const Tensor targets = at::tensor(std::vector<int64_t>(sample.ids.begin(), sample.ids.end()), at::kLong);
  const Tensor log_p = decoder.TargetLogProbs(hidden.narrow(0, first, count), targets, temperature).value().log_probs.to(at::kDouble).cpu();
  return std::vector<double>(log_p.const_data_ptr<double>(), log_p.const_data_ptr<double>() + count);
}

// Mean and largest difference of log-probs.
struct Gap {
  double sum = 0, worst = 0, count = 0;
  void Add(double a, double b) {
    sum += std::abs(a - b);
    worst = std::max(worst, std::abs(a - b));
    ++count;
  }
  double mean() const { return sum / count; }
};

// Two bf16 computations that add up in different orders differ as much as each differs from exact arithmetic, times the
// square root of two: after a few roundings nothing of the common rounding is left. So the engine is measured against
// fp32, too: no worse than the learner.
TEST_CASE("The fast engine's log-probs are as near to fp32 as the learner's, and within 3e-3 of them, for every family", "[rollout][cuda][gpu]") {
  HONE_NEEDS_GPU();
  for (const auto& [name, config] : Families()) {
    const auto decoder = Make(config);
    const auto exact = policy::Decoder::Create(config, {at::kCPU, at::kFloat}).value();
    {
      at::NoGradGuard no_grad;
      Tensor flat = exact->parameters().flat();
      flat.copy_(decoder->parameters().flat());
    }
    std::vector<GenerationRequest> requests{Request(300, 7, 4, 1, 60), Request(5, 3, 1, 2, 90), Request(700, 11, 2, 3, 30)};
    for (const int64_t rows : {1, 3, 64}) {
      const auto results = Run(*decoder, requests, {.max_running = rows, .prefill_tokens = 256, .cache_bytes = int64_t{256} << 20});
      Gap apart, engine, learner;
      for (size_t i = 0; i < requests.size(); ++i) {
        for (const Sample& sample : results[i]) {
          const std::vector<double> learned = Score(*decoder, requests[i].prompt_ids, sample, 1), truth = Score(*exact, requests[i].prompt_ids, sample, 1);
          for (size_t t = 0; t < learned.size(); ++t) {
            apart.Add(learned[t], sample.log_probs[t]);
            engine.Add(sample.log_probs[t], truth[t]);
            learner.Add(learned[t], truth[t]);
          }
        }
      }
      std::printf("%s, %ld rows: mean |d log p| %.2e, worst %.2e over %.0f tokens; from fp32: engine %.2e, learner %.2e\n", name, rows, apart.mean(),
                  apart.worst, apart.count, engine.mean(), learner.mean());
      CHECK(apart.mean() <= 3e-3);
      CHECK(engine.mean() <= 1.15 * learner.mean());
    }
  }
}

bool Same(const Sample& a, const Sample& b) { return a.ids == b.ids && a.log_probs == b.log_probs; }

TEST_CASE("In deterministic mode a sample depends on its seed alone, to the bit: batch, chunks and preemption do not show",
          "[rollout][cuda][gpu]") {
  HONE_NEEDS_GPU();
  for (const auto& [name, config] : Families()) {
    const auto decoder = Make(config);
    const GenerationRequest watched = Request(100, 5, 3, 99, 60);
    const NativeEngineOptions wide{.max_running = 64, .prefill_tokens = 2048, .cache_bytes = int64_t{64} << 20, .deterministic = true};
    NativeEngineOptions narrow = wide, scarce = wide;
    narrow.max_running = 2;
    narrow.prefill_tokens = 33;
    const int64_t page_bytes = 2 * 2 * config.num_hidden_layers * config.num_key_value_heads * config.head_dim * 16;
    scarce.cache_bytes = 24 * page_bytes;
    const auto alone = Run(*decoder, {watched}, wide)[0];
    const auto crowd = Run(*decoder, {Request(3, 2, 9, 1, 80), watched, Request(400, 3, 5, 2, 50)}, wide)[1];
    const auto chunked = Run(*decoder, {Request(20, 2, 2, 1, 30), watched}, narrow)[1];
    const auto preempted = Run(*decoder, {Request(50, 2, 5, 1, 90), watched}, scarce)[1];
    for (size_t j = 0; j < alone.size(); ++j) {
      INFO(name << " sample " << j);
      CHECK(Same(alone[j], crowd[j]));
      CHECK(Same(alone[j], chunked[j]));
      CHECK(Same(alone[j], preempted[j]));
    }
  }
}

TEST_CASE("Memory given back is free for others, and the same graphs sample the same tokens when it is taken again", "[rollout][cuda][gpu]") {
  HONE_NEEDS_GPU();
  const at::Device device(at::kCUDA, 0);
  const auto decoder = Make(Families()[1].second);
  NativeEngineOptions options;
  options.cache_bytes = int64_t{8} << 30;
  const int64_t before = policy::FreeBytes(device);
  const auto engine = NativeEngine::Create(options, *decoder).value();
  const std::vector<GenerationRequest> requests{Request(40, 7, 8, 11, 64), Request(300, 3, 1, 12, 100)};
  const auto wanted = engine->Generate(requests, {}).value();
  for (int round = 0; round < 3; ++round) {
    const int64_t held = policy::FreeBytes(device);
    CHECK(before - held > options.cache_bytes - (int64_t{2} << 20));
    const auto start = std::chrono::steady_clock::now();
    REQUIRE(engine->ReleaseMemory().ok());
    const std::chrono::duration<double, std::milli> released = std::chrono::steady_clock::now() - start;
    const int64_t freed = policy::FreeBytes(device) - held;
    CHECK(freed > options.cache_bytes - (int64_t{2} << 20));
    CHECK(absl::IsFailedPrecondition(engine->scheduler().Submit(requests[0], {{}, [](size_t, const Sample&) {}}).ok() ? engine->scheduler().Step()
                                                                                                                       : absl::OkStatus()));
    engine->scheduler().Forget();
    {  // a learner uses it: the addresses that torch gets hold something else meanwhile
      const Tensor other = at::full({int64_t{1} << 31}, 7, at::TensorOptions(device).dtype(at::kByte));
      CHECK(other[12345].item<int>() == 7);
    }
    const auto again = std::chrono::steady_clock::now();
    const auto got = engine->Generate(requests, {}).value();
    std::printf("{\"released_gb\": %.3f, \"release_ms\": %.2f, \"first_generate_s\": %.3f}\n", static_cast<double>(freed) / 1e9, released.count(),
                std::chrono::duration<double>(std::chrono::steady_clock::now() - again).count());
    for (size_t i = 0; i < wanted.size(); ++i) {
      for (size_t j = 0; j < wanted[i].size(); ++j) {
        CHECK(got[i][j].ids == wanted[i][j].ids);
        CHECK(got[i][j].log_probs == wanted[i][j].log_probs);
      }
    }
  }
}

TEST_CASE("Memory that others hold by then is asked for in vain, with its size, and found when they give it back", "[rollout][cuda][gpu]") {
  HONE_NEEDS_GPU();
  const at::Device device(at::kCUDA, 0);
  const auto decoder = Make(Families()[1].second);
  NativeEngineOptions options;
  options.cache_bytes = int64_t{8} << 30;
  const auto engine = NativeEngine::Create(options, *decoder).value();
  const std::vector<GenerationRequest> requests{Request(40, 7, 2, 11, 8)};
  const auto wanted = engine->Generate(requests, {}).value();
  REQUIRE(engine->ReleaseMemory().ok());
  Tensor hog = at::empty({policy::FreeBytes(device) - (int64_t{4} << 30)}, at::TensorOptions(device).dtype(at::kByte));
  const absl::Status refused = engine->Generate(requests, {}).status();
  CHECK(absl::IsResourceExhausted(refused));
  CHECK_THAT(std::string(refused.message()), Catch::Matchers::ContainsSubstring("8192 MiB"));
  hog = Tensor();  // torch keeps the block: it is given up for the cache
  CHECK(engine->Generate(requests, {}).value()[0][1].ids == wanted[0][1].ids);
}

TEST_CASE("New weights in mid-flight change the tokens after them and lose no sample", "[rollout][cuda][gpu]") {
  HONE_NEEDS_GPU();
  const auto decoder = Make(Families()[1].second);
  const auto engine = NativeEngine::Create({.max_running = 8}, *decoder).value();
  const Tensor other = decoder->parameters().flat() * 1.5;
  GenerateOptions options;
  bool done = false;
  options.stop = [&](size_t, size_t, const Sample& so_far) {
    if (so_far.ids.size() == 20 && !done) {
      done = true;
      REQUIRE(engine->UpdateWeights(other, 7).ok());
    }
    return false;
  };
  const auto results = engine->Generate({Request(30, 3, 4, 1, 50)}, options).value()[0];
  for (const Sample& sample : results) {
    CHECK(sample.ids.size() == 50);
    REQUIRE(sample.versions.size() == 2);
    CHECK(sample.versions[0].policy_version == 0);
    CHECK(sample.versions[1].policy_version == 7);
    CHECK(sample.versions[1].end == 50);
  }
  CHECK(at::equal(decoder->parameters().flat(), other));
}

TEST_CASE("Weights that are not finite stop the engine and the layer is named", "[rollout][cuda][gpu]") {
  HONE_NEEDS_GPU();
  const auto decoder = Make(Families()[0].second);
  {
    at::NoGradGuard no_grad;
    Tensor weight = decoder->parameters().leaf("model.layers.1.mlp.down_proj.weight");
    weight[3].fill_(std::nan(""));
  }
  const absl::Status status = NativeEngine::Create({}, *decoder).value()->Generate({Request(9, 3, 1, 1, 5)}, {}).status();
  CHECK(status.message() == "request 0, sample 0, token 0: logits are not finite, first in model.layers.1");
}

}  // namespace
}  // namespace hone::rollout
