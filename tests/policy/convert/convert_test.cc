#include "policy/convert/convert.h"

#include <catch2/catch_test_macros.hpp>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "base/file.h"
#include "policy/chat/chat_template.h"
#include "policy/tokenizer/tokenizer.h"
#include "policy/weights/half.h"
#include "policy/weights/safetensors.h"
#include "tests/policy/models.h"

namespace hone::policy {
namespace {

const std::string kModels = HONE_TEST_DATA "/models/";

absl::Status Convert(const std::string& in, const std::string& out, const ConvertOptions& options = {}) {
  absl::StatusOr<ModelSource> source = OpenModel(in);
  if (!source.ok()) return source.status();
  return WriteModel(*source, out, options, [](int64_t, int64_t, absl::string_view) {});
}

std::vector<float> Floats(const TensorView& view) {
  std::vector<float> values(view.bytes.size() / static_cast<size_t>(ByteSize(view.dtype)));
  for (size_t i = 0; i < values.size(); ++i) {
    uint16_t half;
    if (view.dtype == DType::kFloat32) {
      std::memcpy(&values[i], view.bytes.data() + i * 4, 4);
    } else {
      std::memcpy(&half, view.bytes.data() + i * 2, 2);
      values[i] = view.dtype == DType::kFloat16 ? FloatFromHalf(half) : FloatFromBFloat16(half);
    }
  }
  return values;
}

TEST_CASE("A GGUF file of each architecture becomes the HF tensors that it was made from", "[policy][convert]") {
  const auto folder = TempFolder::Create("hone_convert");
  REQUIRE(folder.ok());
  for (const std::string name : {"qwen2", "qwen3", "llama", "gemma3"}) {
    INFO(name);
    const std::string out = folder->path() + "/" + name;
    REQUIRE(Convert(kModels + name + ".gguf", out, {DType::kFloat32}).ok());
    const auto made = Safetensors::Open(out);
    const auto expected = Safetensors::Open(kModels + name + ".safetensors");
    REQUIRE(made.ok());
    REQUIRE(expected.ok());
    std::vector<std::string> names;
    for (const TensorView& view : (*expected)->tensors()) names.push_back(view.name);
    REQUIRE((*made)->RequireNames(names) == absl::OkStatus());
    for (const TensorView& view : (*expected)->tensors()) {
      INFO(view.name);
      const TensorView* got = (*made)->Find(view.name);
      CHECK(got->shape == view.shape);
      const std::vector<float> want = Floats(view), have = Floats(*got);
      const bool norm = name == "gemma3" && view.shape.size() == 1;  // stored as 1 + w in float32: one rounding
      for (size_t i = 0; i < want.size(); ++i) REQUIRE(std::abs(want[i] - have[i]) <= (norm ? 0x1p-22f : 0.0f));
    }
  }
}

TEST_CASE("The folder has all that loading needs: config, tokenizer, template, generation ids", "[policy][convert]") {
  const auto folder = TempFolder::Create("hone_convert");
  REQUIRE(folder.ok());
  const std::string out = folder->path() + "/model";
  REQUIRE(Convert(kModels + "qwen2.gguf", out).ok());
  const auto config = nlohmann::json::parse(*ReadFile(out + "/config.json"));
  CHECK(config["architectures"][0] == "Qwen2ForCausalLM");
  CHECK(config["hidden_size"] == 32);
  CHECK(config["head_dim"] == 16);
  CHECK(config["tie_word_embeddings"] == true);
  CHECK(config["rms_norm_eps"] == 1e-6);
  CHECK(config["torch_dtype"] == "bfloat16");
  const auto tokenizer = Tokenizer::Load(out);
  REQUIRE(tokenizer.ok());
  CHECK((*tokenizer)->special_ids().eos == std::vector<int32_t>{*(*tokenizer)->IdOf("<|im_end|>")});
  CHECK((*tokenizer)->Decode(*(*tokenizer)->Encode("ab<|im_end|>")) == "ab<|im_end|>");
  CHECK_FALSE((*tokenizer)->IdOf("[PAD]"));
  const auto chat = ChatTemplate::Load(out);
  REQUIRE(chat.ok());
  CHECK(*(*chat)->Render({{ChatMessage{"user", "hi", {}}}}) == "hi");
}

TEST_CASE("An output matrix of its own is kept, one that repeats the embedding is tied", "[policy][convert]") {
  const auto folder = TempFolder::Create("hone_convert");
  REQUIRE(folder.ok());
  REQUIRE(Convert(kModels + "qwen3.gguf", folder->path() + "/m").ok());
  CHECK(nlohmann::json::parse(*ReadFile(folder->path() + "/m/config.json"))["tie_word_embeddings"] == false);
}

TEST_CASE("Shards are written with an index that reads back as the same model", "[policy][convert]") {
  const auto folder = TempFolder::Create("hone_convert");
  REQUIRE(folder.ok());
  REQUIRE(Convert(kModels + "llama.gguf", folder->path() + "/one").ok());
  REQUIRE(Convert(folder->path() + "/one", folder->path() + "/many", {DType::kBFloat16, 8000}).ok());
  const auto one = Safetensors::Open(folder->path() + "/one"), many = Safetensors::Open(folder->path() + "/many");
  REQUIRE(one.ok());
  REQUIRE(many.ok());
  CHECK(FileExists(folder->path() + "/many/model.safetensors.index.json"));
  REQUIRE((*one)->tensors().size() == (*many)->tensors().size());
  for (size_t i = 0; i < (*one)->tensors().size(); ++i) {
    CHECK((*one)->tensors()[i].name == (*many)->tensors()[i].name);
    CHECK((*one)->tensors()[i].bytes == (*many)->tensors()[i].bytes);
  }
  CHECK(*ReadFile(folder->path() + "/one/tokenizer.json") == *ReadFile(folder->path() + "/many/tokenizer.json"));
}

TEST_CASE("A failed or refused conversion leaves nothing behind", "[policy][convert]") {
  const auto folder = TempFolder::Create("hone_convert");
  REQUIRE(folder.ok());
  const std::string out = folder->path() + "/out";
  REQUIRE(MakeFolders(out).ok());
  REQUIRE(WriteFileAtomically(out + "/keep", "mine").ok());
  CHECK(Convert(kModels + "qwen2.gguf", out).code() == absl::StatusCode::kAlreadyExists);
  CHECK(*ReadFile(out + "/keep") == "mine");
  CHECK(Convert(kModels + "qwen2.gguf", folder->path() + "/int", {DType::kInt8}).code() == absl::StatusCode::kInvalidArgument);
  absl::StatusOr<ModelSource> source = OpenModel(kModels + "qwen2.gguf");
  REQUIRE(source.ok());
  source->files[0].second = "not json";
  CHECK_FALSE(WriteModel(*source, folder->path() + "/bad", {}, [](int64_t, int64_t, absl::string_view) {}).ok());
  int64_t entries = 0;
  for (const auto& entry : std::filesystem::directory_iterator(folder->path())) entries += !entry.path().empty();
  CHECK(entries == 1);
}

TEST_CASE("A GGUF model with flipped bytes is refused in one line or converted, never trusted", "[policy][convert]") {
  const auto folder = TempFolder::Create("hone_convert");
  REQUIRE(folder.ok());
  const std::string whole = *ReadFile(kModels + "qwen2.gguf"), path = folder->path() + "/flipped.gguf";
  for (size_t at = 0; at < 6000; at += 7) {
    std::string flipped = whole;
    flipped[at] = static_cast<char>(flipped[at] ^ (at % 2 == 0 ? 0x01 : 0xFF));
    REQUIRE(WriteFileAtomically(path, flipped).ok());
    const absl::StatusOr<ModelSource> source = OpenModel(path);
    if (!source.ok()) {
      CHECK(std::string(source.status().message()).find('\n') == std::string::npos);
      continue;
    }
    for (const SourceTensor& tensor : source->tensors) {
      std::vector<float> values(static_cast<size_t>(tensor.Elements()));
      tensor.read(0, absl::MakeSpan(values));
    }
  }
}

TEST_CASE("The real Gemma 3 converts and its folder loads", "[policy][convert][models]") {
  const auto path = FindModel("gemma-3-270m-q4_k_m.gguf");
  if (!path) SKIP(MissingModel("gemma-3-270m-q4_k_m.gguf"));
  const absl::StatusOr<ModelSource> source = OpenModel(*path);
  REQUIRE(source.ok());
  CHECK(source->tensors.size() == 236);
  const auto config = nlohmann::json::parse(source->files[0].second);
  CHECK(config["model_type"] == "gemma3_text");
  CHECK(config["vocab_size"] == 262144);
  CHECK(config["layer_types"][5] == "full_attention");
}

}  // namespace
}  // namespace hone::policy
