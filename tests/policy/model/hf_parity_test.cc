#include "tests/support/catch_torch.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "base/file.h"
#include "policy/model/hf_config.h"
#include "policy/model/hf_folder.h"
#include "policy/weights/safetensors.h"
#include "policy/weights/torch_weights.h"

namespace hone::policy {
namespace {

// Written by make_reference.py: transformers' fp32 logits of tiny random models.
at::Tensor ReferenceTensor(const std::string& family, const char* name) {
  const auto file = Safetensors::Open(absl::StrCat(HONE_REFERENCE, "/", family, "/expected.safetensors")).value();
  return CopyToTensor(*file->Find(name));
}

at::Tensor LogitsOf(Decoder& decoder, const at::Tensor& ids) {
  at::NoGradGuard no_grad;
  PackedSequences attention(at::tensor({int64_t{0}, ids.size(0)}, at::kLong));
  return decoder.Logits(decoder.Hidden(ids, at::arange(ids.size(0), at::kLong), attention).value()).value();
}

TEST_CASE("Logits of every family are those of transformers", "[policy][model]") {
  for (const char* family : {"llama3", "qwen2", "qwen3", "gemma3"}) {
    INFO(family);
    const auto decoder = LoadHfFolder(absl::StrCat(HONE_REFERENCE, "/", family)).value();
    const at::Tensor logits = LogitsOf(*decoder, ReferenceTensor(family, "ids")), wanted = ReferenceTensor(family, "logits");
    CHECK(wanted.abs().max().item<double>() > 1);
    CHECK((logits - wanted).abs().max().item<double>() < 1e-4);
    CHECK(at::equal(logits.argmax(-1), wanted.argmax(-1)));
  }
}

TEST_CASE("In bf16 the log-probs stay near those of transformers in fp32", "[policy][model]") {
  for (const char* family : {"llama3", "qwen2", "qwen3", "gemma3"}) {
    INFO(family);
    const auto decoder = LoadHfFolder(absl::StrCat(HONE_REFERENCE, "/", family), {at::kCPU, at::kBFloat16}).value();
    const at::Tensor got = at::log_softmax(LogitsOf(*decoder, ReferenceTensor(family, "ids")), -1);
    const at::Tensor wanted = at::log_softmax(ReferenceTensor(family, "logits"), -1);
    // Eight bits of mantissa through three layers of weights ten times as large as trained ones.
    CHECK((got - wanted).abs().mean().item<double>() < 0.15);
  }
}

TEST_CASE("A folder that was written loads to the same weights", "[policy][model]") {
  const auto decoder = LoadHfFolder(absl::StrCat(HONE_REFERENCE, "/gemma3")).value();
  const TempFolder temp = TempFolder::Create("hone_hf").value();
  REQUIRE(SaveHfWeights(*decoder, temp.path()).ok());
  REQUIRE(WriteFileAtomically(absl::StrCat(temp.path(), "/config.json"), ReadFile(absl::StrCat(HONE_REFERENCE, "/gemma3/config.json")).value()).ok());
  const auto back = LoadHfFolder(temp.path()).value();
  CHECK(at::equal(back->parameters().flat(), decoder->parameters().flat()));
}

TEST_CASE("A config that cannot be served is refused by field", "[policy][model]") {
  const auto message = [](const char* text) { return std::string(ModelConfigFromHf(text, "c.json").status().message()); };
  CHECK(message("[1]") == "c.json: not a JSON object");
  CHECK(message(R"({"model_type": "mamba"})") == "c.json: model_type = \"mamba\", supported: llama, qwen2, qwen3, gemma3_text");
  CHECK(message(R"({"model_type": "llama"})") == "c.json: vocab_size is missing");
  CHECK(message(R"({"model_type": "llama", "vocab_size": "x"})") == "c.json: vocab_size = \"x\", must be an integer");
  const std::string good = ReadFile(absl::StrCat(HONE_REFERENCE, "/llama3/config.json")).value();
  std::string yarn = good;
  yarn.replace(yarn.find("\"llama3\""), 8, "\"yarn\"");
  CHECK(ModelConfigFromHf(yarn, "c.json").status().message() ==
        "c.json: rope_parameters: rope_type = \"yarn\", supported: default, linear, llama3");
}

}  // namespace
}  // namespace hone::policy
