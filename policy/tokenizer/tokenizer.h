#pragma once

// Text to token ids and back, as tokenizer.json of HF tokenizers describes it, to the id.
//
// Supported: BPE models, byte-level (Qwen, Llama 3, GPT-2) and sentencepiece-style with byte fallback (Gemma); normalizers
// NFC, Replace, Prepend; pre-tokenizers Split and ByteLevel; post-processor TemplateProcessing; decoders ByteLevel, Replace,
// ByteFallback, Fuse. Anything else is refused by name when the file is read.

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"

namespace hone::policy {

struct EncodeOptions {
  /// Adds what the post-processor adds (Gemma's and Llama's beginning-of-sequence token). Chat templates write it themselves.
  bool add_special = false;
  /// False: special tokens spelled out in the text are plain text. For text that others wrote, which must not be able to end
  /// a turn.
  bool parse_special = true;
};

/// Immutable and thread-safe; threads share words that were encoded before only by chance.
class Tokenizer {
 public:
  /// `path`: a tokenizer.json, or a folder that holds one. In a folder, tokenizer_config.json and generation_config.json
  /// name the special ids, where they exist.
  /// kNotFound; kInvalidArgument: not JSON, inconsistent, or a feature that is not supported (named).
  static absl::StatusOr<std::unique_ptr<Tokenizer>> Load(const std::string& path);
  /// `name` stands for the file in messages.
  static absl::StatusOr<std::unique_ptr<Tokenizer>> FromJson(std::string json, const std::string& name);
  ~Tokenizer();
  Tokenizer(const Tokenizer&) = delete;
  Tokenizer& operator=(const Tokenizer&) = delete;

  /// Bytes that are not UTF-8 are first replaced by U+FFFD (unicode.h).
  /// kResourceExhausted: the split pattern needs too much backtracking on this text; the published ones never do.
  absl::StatusOr<std::vector<int32_t>> Encode(absl::string_view text, EncodeOptions options = {}) const;

  /// Always UTF-8. An id that is no token gives no text: embeddings are often padded past the vocabulary.
  std::string Decode(absl::Span<const int32_t> ids, bool skip_special = false) const;

  /// One more than the largest id. A model's embedding may have more rows.
  int32_t vocab_size() const;
  /// The token as the vocabulary spells it ("Ġthe", "▁the", "<0x0A>"); empty for an id that is no token.
  const std::string& Spelling(int32_t id) const;
  /// By spelling, special and added tokens included.
  std::optional<int32_t> IdOf(absl::string_view spelling) const;
  bool IsSpecial(int32_t id) const;

  /// Ids that tokenizer_config.json and generation_config.json name. Empty when the folder does not say.
  struct SpecialIds {
    std::optional<int32_t> bos;
    std::optional<int32_t> pad;
    std::vector<int32_t> eos;  // generation ends at any of these
  };
  const SpecialIds& special_ids() const;
  void set_special_ids(SpecialIds ids);

  /// The tokenizer.json that it was read from, byte for byte.
  const std::string& json() const;
  /// Writes json() to `folder`/tokenizer.json, atomically.
  absl::Status Save(const std::string& folder) const;

 private:
  friend class StreamDecoder;
  struct State;
  explicit Tokenizer(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

/// Turns ids into text as they come, never splitting a character: what Push and Finish return, joined, is Decode of all ids.
/// The tokenizer must outlive it. Not thread-safe.
class StreamDecoder {
 public:
  explicit StreamDecoder(const Tokenizer& tokenizer, bool skip_special = false);

  /// The text that is certain now; often empty while a character is incomplete.
  std::string Push(int32_t id);
  /// The rest; an unfinished character becomes U+FFFD. Ready for a new sequence afterwards.
  std::string Finish();

 private:
  void CloseByteRun();

  const Tokenizer* tokenizer_;
  bool skip_special_;
  std::string pending_;   // bytes whose characters may still be open
  std::string byte_run_;  // bytes of consecutive byte-fallback tokens: valid as a whole, or each is U+FFFD
};

}  // namespace hone::policy
