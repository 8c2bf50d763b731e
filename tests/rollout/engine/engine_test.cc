#include "tests/support/catch_torch.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <vector>

#include "base/file.h"
#include "policy/model/hf_folder.h"
#include "rollout/engine/native_engine.h"
#include "rollout/engine/philox.h"
#include "rollout/engine/token_sampler.h"
#include "tests/support/tiny_model.h"
#include "trainer/loop/scorer.h"

namespace hone::rollout {
namespace {

using testing::MakeDecoder;
using testing::TinyConfig;

GenerationRequest Request(std::vector<int32_t> prompt, int64_t samples, uint64_t seed, int64_t max_tokens = 20) {
  GenerationRequest request{std::move(prompt), samples, seed, {}};
  request.sampling.max_tokens = max_tokens;
  return request;
}

std::vector<int32_t> LongPrompt(int32_t length, int32_t step) {
  std::vector<int32_t> ids;
  for (int32_t i = 0; i < length; ++i) ids.push_back((3 + i * step) % 37);
  return ids;
}

std::vector<std::vector<Sample>> Run(policy::Decoder& decoder, const std::vector<GenerationRequest>& requests,
                                     NativeEngineOptions options = {}) {
  return NativeEngine::Create(options, decoder).value()->Generate(requests, {}).value();
}

bool Same(const Sample& a, const Sample& b) { return a.ids == b.ids && a.log_probs == b.log_probs; }

TEST_CASE("Philox gives the published numbers", "[rollout][engine]") {
  // Known answers of Random123 for philox4x32-10.
  CHECK((Philox({0, 0, 0, 0}, {0, 0}) == std::array<uint32_t, 4>{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}));
  CHECK((Philox({~0u, ~0u, ~0u, ~0u}, {~0u, ~0u}) == std::array<uint32_t, 4>{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}));
}

TEST_CASE("A sample depends on its request's seed alone, to the bit, whatever else is in the batch", "[rollout][engine]") {
  const auto decoder = MakeDecoder(TinyConfig());
  const GenerationRequest watched = Request(LongPrompt(21, 5), 4, 99);
  const std::vector<Sample> alone = Run(*decoder, {watched})[0];
  const auto crowd = Run(*decoder, {Request({1}, 9, 1, 33), Request(LongPrompt(50, 3), 3, 2), watched, Request(LongPrompt(16, 7), 8, 3)});
  const auto narrow = Run(*decoder, {Request({5, 6}, 2, 4), watched}, {.max_running = 3, .prefill_tokens = 4});
  const auto scarce = Run(*decoder, {Request(LongPrompt(30, 2), 2, 4), watched}, {.cache_bytes = 12 * policy::KeyValuePages::BytesPerPage(TinyConfig())});
  for (size_t j = 0; j < 4; ++j) {
    CHECK(Same(alone[j], crowd[2][j]));
    CHECK(Same(alone[j], narrow[1][j]));
    CHECK(Same(alone[j], scarce[1][j]));
  }
  CHECK_FALSE(Same(alone[0], alone[1]));
  CHECK_FALSE(Same(alone[0], Run(*decoder, {Request(LongPrompt(21, 5), 4, 100)})[0][0]));
}

TEST_CASE("The engine's log-probs are the learner's, to the bit", "[rollout][engine]") {
  const auto decoder = MakeDecoder(TinyConfig());
  std::vector<GenerationRequest> requests{Request({1, 2, 3}, 5, 1, 40), Request(LongPrompt(33, 5), 5, 2, 70)};
  for (GenerationRequest& request : requests) request.sampling.temperature = 0.7;
  const auto results = Run(*decoder, requests);
  std::vector<trainer::TrainSequence> sequences;
  for (size_t i = 0; i < requests.size(); ++i) {
    for (const Sample& sample : results[i]) sequences.push_back(trainer::PromptAndResponse(requests[i].prompt_ids, sample.ids));
  }
  const auto scores = trainer::ScoreSequences(*decoder, sequences, 0.7, 128).value();
  size_t next = 0;
  for (size_t i = 0; i < requests.size(); ++i) {
    for (const Sample& sample : results[i]) {
      const std::vector<float> response(scores[next].begin() + requests[i].prompt_ids.size(), scores[next].end());
      CHECK(response == sample.log_probs);
      ++next;
    }
  }
}

// Only the inputs of products are rounded: 2^-9 of each, in sums of some dozen.
TEST_CASE("With bf16 weights on the CPU log-probs are those of fp32 up to the rounding of products' inputs, whatever the batch", "[rollout][engine]") {
  at::set_num_threads(1);
  for (const bool gemma : {false, true}) {
    policy::ModelConfig config = TinyConfig();
    config.attention_bias = !gemma;
    config.query_key_norm = config.norm_adds_one = config.norm_after_blocks = gemma;
    const auto half = policy::Decoder::Create(config, {at::kCPU, at::kBFloat16, /*fp32_activations=*/true}).value();
    const auto full = policy::Decoder::Create(config).value();
    half->parameters().Initialize(7);
    {
      at::NoGradGuard no_grad;
      at::Tensor flat = full->parameters().flat();
      flat.copy_(half->parameters().flat());
    }
    const std::vector<GenerationRequest> requests{Request({1, 2, 3}, 3, 1, 40), Request(LongPrompt(33, 5), 2, 2, 30)};
    const auto together = Run(*half, requests);
    for (size_t i = 0; i < requests.size(); ++i) {
      const auto alone = Run(*half, {requests[i]})[0];
      std::vector<trainer::TrainSequence> sequences;
      for (const Sample& sample : together[i]) sequences.push_back(trainer::PromptAndResponse(requests[i].prompt_ids, sample.ids));
      const auto scores = trainer::ScoreSequences(*full, sequences, requests[i].sampling.temperature, 128).value();
      for (size_t j = 0; j < alone.size(); ++j) {
        CHECK(Same(together[i][j], alone[j]));
        double sum = 0;
        for (size_t t = 0; t < alone[j].ids.size(); ++t) sum += std::abs(scores[j][requests[i].prompt_ids.size() + t] - alone[j].log_probs[t]);
        CHECK(sum / static_cast<double>(alone[j].ids.size()) < 0.01);
      }
    }
  }
}

TEST_CASE("A cache larger than the memory is refused with its size", "[rollout][engine]") {
  const auto decoder = MakeDecoder(TinyConfig());
  const auto engine = NativeEngine::Create({.cache_bytes = int64_t{1} << 60}, *decoder);
  CHECK(engine.status().code() == absl::StatusCode::kResourceExhausted);
  CHECK_THAT(std::string(engine.status().message()), Catch::Matchers::ContainsSubstring("no room for a cache of 1099511627776 MiB"));
}

TEST_CASE("Temperature 0 follows the most likely token", "[rollout][engine]") {
  const auto decoder = MakeDecoder(TinyConfig());
  GenerationRequest greedy = Request({4, 9}, 2, 1, 12);
  greedy.sampling.temperature = 0;
  const auto result = Run(*decoder, {greedy})[0];
  CHECK(result[0].ids == result[1].ids);
  std::vector<int64_t> ids{4, 9};
  at::NoGradGuard no_grad;
  for (int32_t wanted : result[0].ids) {
    const int64_t length = static_cast<int64_t>(ids.size());
    policy::PackedSequences attention(at::tensor({int64_t{0}, length}, at::kLong));
    const at::Tensor hidden = decoder->Hidden(at::tensor(ids, at::kLong), at::arange(length, at::kLong), attention).value();
    CHECK(decoder->Logits(hidden).value()[length - 1].argmax().item<int64_t>() == wanted);
    ids.push_back(wanted);
  }
}

TEST_CASE("Greedy answers of every family are those of transformers in fp32", "[rollout][engine]") {
  const nlohmann::json reference = nlohmann::json::parse(ReadFile(HONE_GREEDY).value());
  std::set<std::string> families;
  for (const nlohmann::json& wanted : reference["cases"]) {
    const std::string name = wanted["model"];
    families.insert(name);
    const auto decoder = policy::LoadHfFolder(std::string(HONE_REFERENCE) + "/" + name).value();
    GenerationRequest request{wanted["prompt"], 1, 0, {}};
    request.sampling.temperature = 0;
    request.sampling.max_tokens = 60;
    request.sampling.stop_ids = decoder->config().eos_token_ids;
    INFO(name << ", prompt of " << request.prompt_ids.size());
    CHECK(Run(*decoder, {request})[0][0].ids == wanted["tokens"].get<std::vector<int32_t>>());
  }
  CHECK(families.size() == 4);
}

TEST_CASE("Sampling frequencies follow the filtered distribution, and the log-prob is of that distribution", "[rollout][engine]") {
  const std::vector<float> p{0.02f, 0.30f, 0.18f, 0.40f, 0.10f};
  std::vector<float> logits;
  for (float x : p) logits.push_back(std::log(x) + 3);
  struct Case {
    SamplingOptions options;
    std::vector<double> wanted;
  };
  std::vector<Case> cases(5);
  cases[0].wanted = {0.02, 0.30, 0.18, 0.40, 0.10};
  cases[1].options.top_k = 2;
  cases[1].wanted = {0, 0.30 / 0.70, 0, 0.40 / 0.70, 0};
  cases[2].options.top_p = 0.75;  // 0.40 + 0.30 does not reach it, 0.18 more does
  cases[2].wanted = {0, 0.30 / 0.88, 0.18 / 0.88, 0.40 / 0.88, 0};
  cases[3].options.min_p = 0.3;   // below 0.12
  cases[3].wanted = {0, 0.30 / 0.88, 0.18 / 0.88, 0.40 / 0.88, 0};
  cases[4].options.temperature = 0.5;  // squares
  const double squares = 0.0004 + 0.09 + 0.0324 + 0.16 + 0.01;
  cases[4].wanted = {0.0004 / squares, 0.09 / squares, 0.0324 / squares, 0.16 / squares, 0.01 / squares};
  for (const Case& c : cases) {
    constexpr int kDraws = 20000;
    std::vector<int> counts(5);
    for (int n = 0; n < kDraws; ++n) {
      const TokenDraw draw = DrawToken(logits.data(), 5, c.options, UniformAt(17, 0, n));
      ++counts[draw.id];
      REQUIRE_THAT(draw.log_prob, Catch::Matchers::WithinAbs(std::log(c.wanted[draw.id]), 1e-5));
    }
    for (int i = 0; i < 5; ++i) {
      const double sigma = std::sqrt(kDraws * c.wanted[i] * (1 - c.wanted[i]));
      CHECK(std::abs(counts[i] - kDraws * c.wanted[i]) <= 4.5 * sigma);
    }
  }
}

TEST_CASE("A sample ends at its stop id, which it keeps, or at max_tokens", "[rollout][engine]") {
  const auto decoder = MakeDecoder(TinyConfig());
  const Sample free = Run(*decoder, {Request({1, 2}, 1, 5, 30)})[0][0];
  CHECK(free.finish == FinishReason::kLength);
  CHECK(free.ids.size() == 30);
  GenerationRequest stopped = Request({1, 2}, 1, 5, 30);
  stopped.sampling.stop_ids = {free.ids[7]};
  const Sample cut = Run(*decoder, {stopped})[0][0];
  const size_t first = std::find(free.ids.begin(), free.ids.end(), free.ids[7]) - free.ids.begin();
  CHECK(cut.finish == FinishReason::kStop);
  CHECK(cut.ids == std::vector<int32_t>(free.ids.begin(), free.ids.begin() + first + 1));
}

TEST_CASE("Every token carries the version of the weights that chose it", "[rollout][engine]") {
  const auto decoder = MakeDecoder(TinyConfig());
  const auto engine = NativeEngine::Create({}, *decoder).value();
  REQUIRE(engine->SetPolicyVersion(3).ok());
  GenerateOptions options;
  options.on_sample = [&](size_t request, size_t, const Sample&) {
    if (request == 0) REQUIRE(engine->SetPolicyVersion(4).ok());
  };
  const auto results = engine->Generate({Request({1}, 1, 1, 5), Request({2}, 1, 2, 9)}, options).value();
  CHECK((results[0][0].versions == std::vector<VersionSpan>{{0, 5, 3}}));
  CHECK((results[1][0].versions == std::vector<VersionSpan>{{0, 5, 3}, {5, 9, 4}}));
  CHECK(engine->SetPolicyVersion(2).code() == absl::StatusCode::kInvalidArgument);
}

TEST_CASE("Keys and values of weights that have changed are never used again, with or without a new version", "[rollout][engine]") {
  const auto decoder = MakeDecoder(TinyConfig());
  const auto engine = NativeEngine::Create({}, *decoder).value();
  const std::vector<GenerationRequest> request{Request(LongPrompt(60, 5), 2, 9)};
  engine->Generate(request, {}).value();
  const int64_t read = engine->scheduler().stats().prompt_tokens;
  engine->Generate(request, {}).value();
  CHECK(engine->scheduler().stats().prompt_tokens - read == 60 - 48);  // three whole pages were still there
  {
    at::NoGradGuard no_grad;
    at::Tensor weight = decoder->parameters().leaf("model.layers.0.self_attn.qkv_proj.weight");
    weight.mul_(1.3);
  }
  const auto got = engine->Generate(request, {}).value(), wanted = Run(*decoder, request);
  for (size_t j = 0; j < 2; ++j) CHECK(Same(got[0][j], wanted[0][j]));
  REQUIRE(engine->UpdateWeights(decoder->parameters().flat() * 0.9, engine->policy_version()).ok());
  const auto after = engine->Generate(request, {}).value(), fresh = Run(*decoder, request);
  for (size_t j = 0; j < 2; ++j) CHECK(Same(after[0][j], fresh[0][j]));
}

TEST_CASE("An engine whose memory was given back samples on as if nothing had been, and never gives it back under a sample",
          "[rollout][engine]") {
  const auto decoder = MakeDecoder(TinyConfig());
  const auto engine = NativeEngine::Create({}, *decoder).value();
  const std::vector<GenerationRequest> first{Request(LongPrompt(60, 5), 2, 9)}, second{Request(LongPrompt(60, 5), 2, 10)};
  engine->Generate(first, {}).value();
  REQUIRE(engine->ReleaseMemory().ok());
  REQUIRE(engine->ReleaseMemory().ok());
  // The beginning of the prompt was in pages that are gone.
  const auto got = engine->Generate(second, {}).value(), wanted = Run(*decoder, second);
  for (size_t j = 0; j < 2; ++j) CHECK(Same(got[0][j], wanted[0][j]));

  GenerateOptions options;
  absl::Status asked;
  options.on_sample = [&](size_t, size_t sample, const Sample&) {
    if (sample == 0) asked = engine->ReleaseMemory();
  };
  const auto both = engine->Generate({Request({1}, 1, 1, 5), Request({2}, 1, 2, 9)}, options).value();
  CHECK(absl::IsFailedPrecondition(asked));
  CHECK(both[1][0].ids.size() == 9);

  // Who steps the scheduler himself is told, and no page is touched.
  REQUIRE(engine->ReleaseMemory().ok());
  REQUIRE(engine->scheduler().Submit(first[0], {{}, [](size_t, const Sample&) {}}).ok());
  CHECK(engine->scheduler().Step().message() == "engine: its cache was given back");
}

TEST_CASE("Abort ends running samples with what they have and tells about every sample once", "[rollout][engine]") {
  const auto decoder = MakeDecoder(TinyConfig());
  const auto engine = NativeEngine::Create({.max_running = 2}, *decoder).value();
  std::atomic<bool> abort = false;
  std::map<std::pair<size_t, size_t>, int> told;
  GenerateOptions options;
  options.abort = &abort;
  options.on_sample = [&](size_t request, size_t sample, const Sample&) {
    ++told[{request, sample}];
    abort = true;
  };
  const auto results = engine->Generate({Request({1}, 1, 1, 5), Request({2}, 3, 2, 90)}, options).value();
  CHECK(results[0][0].finish == FinishReason::kLength);
  CHECK(results[1][0].finish == FinishReason::kAborted);
  CHECK_FALSE(results[1][0].ids.empty());
  CHECK(results[1][2].finish == FinishReason::kAborted);
  CHECK(results[1][2].ids.size() <= 1);  // read with the others, never decoded
  CHECK(told.size() == 4);
  for (const auto& [key, count] : told) CHECK(count == 1);
}

TEST_CASE("Requests that cannot be served are refused by name", "[rollout][engine]") {
  const auto decoder = MakeDecoder(TinyConfig());
  const auto engine = NativeEngine::Create({.cache_bytes = 4 * policy::KeyValuePages::BytesPerPage(TinyConfig())}, *decoder).value();
  const auto message = [&](const GenerationRequest& request) { return std::string(engine->Generate({request}, {}).status().message()); };
  CHECK(message(Request({}, 1, 1)) == "request 0: the prompt is empty");
  CHECK(message(Request({37}, 1, 1)) == "request 0: prompt id 37 is outside [0, 37)");
  CHECK(message(Request({1}, 1, 1, 256)) == "request 0: prompt of 1 tokens plus max_tokens = 256 is over the context of 256");
  CHECK(engine->Generate({Request(LongPrompt(60, 1), 1, 1)}, {}).status().code() == absl::StatusCode::kResourceExhausted);
  GenerationRequest bad = Request({1}, 1, 1);
  bad.sampling.top_p = 0;
  CHECK(message(bad) == "request 0: sampling: top_p = 0, allowed (0, 1]");
}

TEST_CASE("Logits that are not finite stop the generation and name the request", "[rollout][engine]") {
  const auto decoder = MakeDecoder(TinyConfig());
  {
    at::NoGradGuard no_grad;
    at::Tensor weight = decoder->parameters().leaf("model.norm.weight");
    weight.fill_(std::nan(""));
  }
  const auto engine = NativeEngine::Create({}, *decoder).value();
  const absl::Status status = engine->Generate({Request({1}, 1, 1)}, {}).status();
  CHECK(status.code() == absl::StatusCode::kInternal);
  CHECK(status.message() == "request 0, sample 0, token 0: logits are not finite, first in model.norm");
}

}  // namespace
}  // namespace hone::rollout
