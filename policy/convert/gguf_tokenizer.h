#pragma once

// The tokenizer inside a GGUF file, as the files that HF transformers keeps beside a model.

#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "policy/weights/gguf.h"

namespace hone::policy {

struct GgufTokenizer {
  std::string json;    // tokenizer.json
  std::string config;  // tokenizer_config.json
  std::optional<std::string> chat_template;
  std::optional<int32_t> bos, pad;
  std::vector<int32_t> eos;  // the file's own first, then other tokens that are known to end a turn or a text
};

/// Byte-level vocabularies (tokenizer.ggml.model "gpt2") with the split of Qwen2 or Llama 3, and Gemma's sentencepiece
/// vocabularies, whose merges are recovered from the order of the tokens.
/// Qwen's normalisation to form C, which the format cannot state, is put back.
/// kInvalidArgument: another kind (named, with those supported), or arrays that disagree.
absl::StatusOr<GgufTokenizer> ReadGgufTokenizer(const Gguf& gguf);

}  // namespace hone::policy
