// Any bytes as a GGUF model: refused, or all weights and the tokenizer can be read.

#include <algorithm>

#include "policy/convert/gguf_tokenizer.h"
#include "policy/convert/model_source.h"
#include "policy/tokenizer/tokenizer.h"
#include "tests/fuzz/input_file.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace hone::policy;
  const hone::fuzz::InputFile file(data, size);
  const auto gguf = Gguf::Open(file.path());
  if (!gguf.ok()) return 0;
  for (const GgufTensor& tensor : (*gguf)->tensors()) {
    std::vector<float> values(static_cast<size_t>(tensor.Elements()));
    Dequantize(tensor, 0, absl::MakeSpan(values));
  }
  if (const auto tokenizer = ReadGgufTokenizer(**gguf); tokenizer.ok()) (void)Tokenizer::FromJson(tokenizer->json, "fuzz");
  (void)OpenGgufModel(file.path());
  return 0;
}
