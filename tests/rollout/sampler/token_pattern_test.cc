// The generator's texts under the tokenizer that the quickstart trains for them.

#include <algorithm>
#include <catch2/catch_test_macros.hpp>
#include <numeric>
#include <set>
#include <string>
#include <vector>

#include "policy/tokenizer/train_bpe.h"
#include "rollout/sampler/generator.h"

namespace hone::rollout {
namespace {

std::unique_ptr<policy::Tokenizer> Train(int32_t vocabulary) {
  policy::TrainBpeOptions options;
  options.pattern = kTokenPattern;
  options.all_bytes = false;
  auto tokenizer = policy::TrainBpe(Corpus(3000, 41), vocabulary, options);
  REQUIRE(tokenizer.status().message() == "");
  return *std::move(tokenizer);
}

std::vector<int32_t> Encoded(const policy::Tokenizer& tokenizer, const std::string& text) {
  const auto ids = tokenizer.Encode(text);
  REQUIRE(ids.ok());
  return *ids;
}

}  // namespace

TEST_CASE("Fresh prompts and answers survive the tokenizer, and an answer takes 60 tokens of 768 on average",
          "[rollout][generator]") {
  const auto tokenizer = Train(768);
  Generator generator(42);
  std::vector<size_t> answers;
  size_t prompts = 0;
  constexpr int kCount = 500;
  for (int i = 0; i < kCount; ++i) {
    const Example example = generator.NextExample();
    const std::vector<int32_t> prompt = Encoded(*tokenizer, example.prompt);
    const std::vector<int32_t> answer = Encoded(*tokenizer, example.demonstration.source);
    REQUIRE(tokenizer->Decode(prompt) == example.prompt);
    REQUIRE(tokenizer->Decode(answer) == example.demonstration.source);
    prompts += prompt.size();
    answers.push_back(answer.size());
  }
  std::sort(answers.begin(), answers.end());
  const double mean = std::accumulate(answers.begin(), answers.end(), 0.0) / kCount;
  CAPTURE(mean, answers[kCount / 2], answers[kCount * 95 / 100], answers.back(), prompts / kCount);
  CHECK(mean > 45);
  CHECK(mean < 70);
  CHECK(answers[kCount * 95 / 100] < 130);
  CHECK(prompts / kCount < 25);
}

TEST_CASE("A line of arithmetic is cut into words whatever the vocabulary's size, so that expressions are composed",
          "[rollout][generator]") {
  const auto tokenizer = Train(2000);
  std::vector<std::string> tokens;
  for (const int32_t id : Encoded(*tokenizer, "  float t = x * y;\n  t = 1.0f / (1.0f + __expf(-t));\n")) {
    tokens.push_back(tokenizer->Decode(std::vector<int32_t>{id}));
  }
  CHECK(tokens == std::vector<std::string>{"  float t =", " x", " *", " y", ";\n", "  t =", " 1.0f", " /", " (", "1.0f", " +",
                                           " __expf(", "-", "t", "));\n"});
}

}  // namespace hone::rollout
