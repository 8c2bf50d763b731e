// Ids and texts against HF tokenizers, by the hashes that tests/policy/data/make_tokenizers.py wrote.

#include <catch2/catch_test_macros.hpp>
#include <cstdlib>
#include <cstring>
#include <nlohmann/json.hpp>

#include "absl/strings/str_cat.h"
#include "base/file.h"
#include "base/hash.h"
#include "policy/convert/gguf_tokenizer.h"
#include "policy/tokenizer/tokenizer.h"
#include "policy/tokenizer/train_bpe.h"
#include "policy/tokenizer/unicode.h"
#include "tests/policy/models.h"
#include "tests/policy/tokenizer/sample_text.h"

namespace hone::policy {
namespace {

const std::string kData = HONE_TEST_DATA;

std::vector<uint32_t> ReadHashes(const std::string& file) {
  const auto bytes = ReadFile(kData + "/" + file);
  REQUIRE(bytes.ok());
  std::vector<uint32_t> hashes(bytes->size() / sizeof(uint32_t));
  std::memcpy(hashes.data(), bytes->data(), hashes.size() * sizeof(uint32_t));
  return hashes;
}

/// The ids that make_tokenizers.py decodes for a sequence.
std::vector<int32_t> RandomIds(uint64_t sequence, int32_t vocab_size) {
  std::vector<int32_t> ids(1 + sequence % 24);
  uint64_t state = sequence;
  for (int32_t& id : ids) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    id = static_cast<int32_t>((state >> 33) % static_cast<uint64_t>(vocab_size));
  }
  return ids;
}

void CheckIds(const Tokenizer& tokenizer, const std::string& name) {
  const std::vector<uint32_t> expected = ReadHashes(name + ".ids");
  REQUIRE(expected.size() == 20000);
  std::string differing;
  for (size_t i = 0; i < expected.size(); ++i) {
    const auto ids = tokenizer.Encode(SampleText(i));
    REQUIRE(ids.ok());
    if (HashIds(*ids) != expected[i] && differing.size() < 200) absl::StrAppend(&differing, " ", i);
  }
  INFO("texts with other ids:" << differing);
  CHECK(differing.empty());
}

void CheckDecoded(const Tokenizer& tokenizer, const std::string& name) {
  const std::vector<uint32_t> expected = ReadHashes(name + ".decoded");
  std::string differing;
  for (size_t i = 0; i < expected.size(); ++i) {
    const std::vector<int32_t> ids = RandomIds(i, tokenizer.vocab_size());
    const bool skip_special = i % 2 == 1;
    const std::string text = tokenizer.Decode(ids, skip_special);
    const uint32_t hash = static_cast<uint32_t>(std::strtoul(Sha256Hex(text).substr(0, 8).c_str(), nullptr, 16));
    StreamDecoder stream(tokenizer, skip_special);
    std::string streamed;
    for (const int32_t id : ids) {
      const std::string piece = stream.Push(id);
      REQUIRE(IsValidUtf8(piece));
      streamed += piece;
    }
    REQUIRE(streamed + stream.Finish() == text);
    if (hash != expected[i] && differing.size() < 200) absl::StrAppend(&differing, " ", i);
  }
  INFO("sequences with another text:" << differing);
  CHECK(differing.empty());
}

void CheckFamily(const std::string& name) {
  const auto tokenizer = Tokenizer::Load(kData + "/" + name + ".json");
  REQUIRE(tokenizer.ok());
  CheckIds(**tokenizer, name);
  CheckDecoded(**tokenizer, name);
}

TEST_CASE("Qwen's form: NFC, single digits, added tokens of both kinds", "[policy][tokenizer]") { CheckFamily("qwen"); }
TEST_CASE("Llama 3's form: merges ignored for whole words", "[policy][tokenizer]") { CheckFamily("llama"); }
TEST_CASE("GPT-2's form: prefix space, tokens that take white space along", "[policy][tokenizer]") { CheckFamily("gpt2"); }
TEST_CASE("Gemma's form: byte fallback, no split into words", "[policy][tokenizer]") { CheckFamily("gemma"); }

TEST_CASE("The post-processor adds the beginning of the sequence only when asked", "[policy][tokenizer]") {
  for (const auto& [name, bos] : {std::pair{"llama", "<|begin_of_text|>"}, std::pair{"gemma", "<bos>"}}) {
    const auto tokenizer = Tokenizer::Load(kData + "/" + name + ".json");
    REQUIRE(tokenizer.ok());
    const auto plain = (*tokenizer)->Encode("int i");
    const auto with_bos = (*tokenizer)->Encode("int i", {.add_special = true});
    REQUIRE(plain.ok());
    REQUIRE(with_bos.ok());
    std::vector<int32_t> expected = {*(*tokenizer)->IdOf(bos)};
    expected.insert(expected.end(), plain->begin(), plain->end());
    CHECK(*with_bos == expected);
  }
}

TEST_CASE("Training learns the vocabulary and merges that HF's trainer learns", "[policy][tokenizer]") {
  std::vector<std::string> corpus;
  for (uint64_t i = 0; i < 500; ++i) corpus.push_back(SampleText(i));
  const auto trained = TrainBpe(corpus, 600, {.special_tokens = {"<end>"}});
  REQUIRE(trained.ok());
  const auto ours = nlohmann::json::parse((*trained)->json());
  const auto theirs = nlohmann::json::parse(*ReadFile(kData + "/trained.json"));
  CHECK(ours["model"]["vocab"] == theirs["model"]["vocab"]);
  CHECK(ours["model"]["merges"] == theirs["model"]["merges"]);
  CHECK(ours["added_tokens"] == theirs["added_tokens"]);
}

void CheckGguf(const std::string& file, const std::string& name) {
  const auto path = FindModel(file);
  if (!path) SKIP(MissingModel(file));
  const auto gguf = Gguf::Open(*path);
  REQUIRE(gguf.ok());
  auto read = ReadGgufTokenizer(**gguf);
  REQUIRE(read.ok());
  const auto tokenizer = Tokenizer::FromJson(read->json, file);
  REQUIRE(tokenizer.ok());
  CheckIds(**tokenizer, name);
  CheckDecoded(**tokenizer, name);
}

TEST_CASE("The real Qwen2.5 Coder, from its GGUF file", "[policy][tokenizer][models]") {
  CheckGguf("qwen2.5-coder-1.5b-instruct-q4_k_m.gguf", "qwen2.5-coder");
}
TEST_CASE("The real Gemma 3, from its GGUF file", "[policy][tokenizer][models]") {
  CheckGguf("gemma-3-270m-q4_k_m.gguf", "gemma3");
}
TEST_CASE("The real Llama 3", "[policy][tokenizer][models]") {
  const auto path = FindModel("llama3/tokenizer.json");
  if (!path) SKIP(MissingModel("llama3/tokenizer.json"));
  const auto tokenizer = Tokenizer::Load(*path);
  REQUIRE(tokenizer.ok());
  CheckIds(**tokenizer, "llama3");
  CheckDecoded(**tokenizer, "llama3");
}

}  // namespace
}  // namespace hone::policy
