#include "policy/tokenizer/train_bpe.h"

#include <catch2/catch_test_macros.hpp>

#include "base/file.h"

namespace hone::policy {
namespace {

const std::vector<std::string> kCorpus = {
    "for (int i = 0; i < n; ++i) out[i] = in[i] * 2.0f;", "for (int j = 0; j < n; ++j) out[j] = in[j] + 1.0f;",
    "__global__ void f(const float* in, float* out, int n)", "int i = blockIdx.x * blockDim.x + threadIdx.x;"};

std::vector<int32_t> Ids(const Tokenizer& tokenizer, absl::string_view text, EncodeOptions options = {}) {
  auto ids = tokenizer.Encode(text, options);
  REQUIRE(ids.ok());
  return *ids;
}

TEST_CASE("The first merge is the most frequent pair", "[policy][tokenizer]") {
  // "ab" occurs 5 times, "bc" 3 times; after merging ab, "ab c" occurs 3 times.
  const std::vector<std::string> corpus = {"abc abc abc", "ab ab"};
  TrainBpeOptions options;
  options.all_bytes = false;
  options.pattern = R"(\p{L}+|\s)";
  const auto tokenizer = TrainBpe(corpus, 6, options);
  REQUIRE(tokenizer.ok());
  // Bytes in the order of their spelling: a, b, c, then U+0120 for the space.
  CHECK((*tokenizer)->IdOf("ab") == 4);
  CHECK((*tokenizer)->IdOf("abc") == 5);
  CHECK(Ids(**tokenizer, "abc ab") == std::vector<int32_t>{5, 3, 4});
}

TEST_CASE("Training gives the vocabulary size asked for, special tokens first", "[policy][tokenizer]") {
  TrainBpeOptions options;
  options.special_tokens = {"<pad>", "<end>"};
  const auto tokenizer = TrainBpe(kCorpus, 280, options);
  REQUIRE(tokenizer.ok());
  CHECK((*tokenizer)->vocab_size() == 280);
  CHECK((*tokenizer)->IdOf("<end>") == 1);
  CHECK((*tokenizer)->IsSpecial(1));
  CHECK_FALSE((*tokenizer)->IsSpecial(2));
  CHECK(Ids(**tokenizer, "int<end>").back() == 1);
  CHECK(Ids(**tokenizer, "int<end>", {.parse_special = false}).back() != 1);
}

TEST_CASE("With all bytes, any text survives encoding and decoding", "[policy][tokenizer]") {
  const auto tokenizer = TrainBpe(kCorpus, 300);
  REQUIRE(tokenizer.ok());
  std::string control;
  for (char c = 0; c < 32; ++c) control.push_back(c);
  for (const std::string& text : {std::string("out[i] = 线程 🚀;\n\t"), control, std::string(5000, 'a'), std::string()}) {
    CHECK((*tokenizer)->Decode(Ids(**tokenizer, text)) == text);
  }
}

TEST_CASE("A trained tokenizer that was saved and loaded encodes the same", "[policy][tokenizer]") {
  const auto tokenizer = TrainBpe(kCorpus, 320, {.special_tokens = {"<end>"}});
  REQUIRE(tokenizer.ok());
  const auto folder = TempFolder::Create("hone_tokenizer");
  REQUIRE(folder.ok());
  REQUIRE((*tokenizer)->Save(folder->path()).ok());
  const auto loaded = Tokenizer::Load(folder->path());
  REQUIRE(loaded.ok());
  for (const std::string& text : kCorpus) CHECK(Ids(**loaded, text) == Ids(**tokenizer, text));
  CHECK((*loaded)->json() == (*tokenizer)->json());
}

TEST_CASE("A vocabulary too small for its bytes is refused", "[policy][tokenizer]") {
  const auto tokenizer = TrainBpe(kCorpus, 255);
  REQUIRE_FALSE(tokenizer.ok());
  CHECK(tokenizer.status().message() == "a vocabulary of 255 does not hold 256 special tokens and bytes");
}

TEST_CASE("Streamed text, joined, is the decoded text and every piece is whole UTF-8", "[policy][tokenizer]") {
  const auto tokenizer = TrainBpe(kCorpus, 256);  // one token a byte: each character but ASCII comes in parts
  REQUIRE(tokenizer.ok());
  std::vector<int32_t> ids = Ids(**tokenizer, "é线🚀");
  ids.push_back(ids[0]);  // a lone lead byte at the end
  StreamDecoder decoder(**tokenizer);
  std::vector<std::string> pieces;
  for (const int32_t id : ids) pieces.push_back(decoder.Push(id));
  pieces.push_back(decoder.Finish());
  const std::vector<std::string> expected = {"", "é", "", "", "线", "", "", "", "🚀", "", "\xEF\xBF\xBD"};
  CHECK(pieces == expected);
}

}  // namespace
}  // namespace hone::policy
