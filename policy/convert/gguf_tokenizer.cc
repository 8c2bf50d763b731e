#include "policy/convert/gguf_tokenizer.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "policy/tokenizer/tokenizer_json.h"
#include "policy/tokenizer/unicode.h"

namespace hone::policy {
namespace {

using Json = nlohmann::ordered_json;

// tokenizer.ggml.token_type
enum TokenType : int64_t { kNormal = 1, kUnknown = 2, kControl = 3, kUserDefined = 4, kUnused = 5, kByte = 6 };

constexpr char kWordMark[] = "\u2581";

struct Split {
  const char* name;  // tokenizer.ggml.pre
  const char* pattern;
  bool nfc;
  bool ignore_merges;
};
constexpr char kQwen2[] =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
constexpr char kLlama3[] =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
constexpr Split kSplits[] = {{"qwen2", kQwen2, true, false},
                             {"deepseek-r1-qwen", kQwen2, true, false},
                             {"llama-bpe", kLlama3, false, true},
                             {"llama3", kLlama3, false, true},
                             {"llama-v3", kLlama3, false, true}};

// Tokens that end a turn or a text in the families hone knows.
constexpr const char* kEndings[] = {"<|im_end|>", "<|endoftext|>", "<|eot_id|>", "<|end_of_text|>", "<end_of_turn>", "<eos>"};

struct Vocabulary {
  std::vector<std::string> tokens;
  std::vector<int64_t> types;
};

absl::StatusOr<Vocabulary> ReadVocabulary(const Gguf& gguf) {
  const auto bad = [&](absl::string_view what) { return absl::InvalidArgumentError(absl::StrCat(gguf.path(), ": ", what)); };
  const GgufArray* tokens = gguf.Array("tokenizer.ggml.tokens");
  const GgufArray* types = gguf.Array("tokenizer.ggml.token_type");
  if (tokens == nullptr || tokens->strings.empty()) return bad("has no tokenizer.ggml.tokens");
  if (types == nullptr || types->integers.size() != tokens->strings.size()) {
    return bad(absl::StrCat("has ", tokens->strings.size(), " tokens but ", types == nullptr ? 0 : types->integers.size(),
                            " token types"));
  }
  Vocabulary vocabulary;
  for (const absl::string_view token : tokens->strings) {
    if (!IsValidUtf8(token)) return bad(absl::StrCat("token ", vocabulary.tokens.size(), " is not UTF-8"));
    vocabulary.tokens.emplace_back(token);
  }
  vocabulary.types = types->integers;
  return vocabulary;
}

std::vector<AddedToken> AddedTokens(const Vocabulary& vocabulary) {
  std::vector<AddedToken> added;
  for (size_t id = 0; id < vocabulary.tokens.size(); ++id) {
    const int64_t type = vocabulary.types[id];
    const bool special = type == kControl || type == kUnknown;
    if (vocabulary.tokens[id].empty() || !(special || type == kUserDefined)) continue;
    added.push_back({static_cast<int32_t>(id), vocabulary.tokens[id], special});
  }
  return added;
}

std::string Quoted(const std::string& text) { return Json(text).dump(-1, ' ', false, Json::error_handler_t::replace); }

absl::Status FillByteLevel(const Gguf& gguf, const Vocabulary& vocabulary, TokenizerFile& file) {
  const std::string name = gguf.Text("tokenizer.ggml.pre").value_or("");
  const Split* split = std::find_if(std::begin(kSplits), std::end(kSplits), [&](const Split& s) { return name == s.name; });
  const GgufArray* merges = gguf.Array("tokenizer.ggml.merges");
  if (split == std::end(kSplits) || merges == nullptr) {
    return absl::InvalidArgumentError(absl::StrCat(gguf.path(), ": ", merges == nullptr ? "has no merges; " : "",
                                                   "tokenizer.ggml.pre is '", absl::Utf8SafeCEscape(name),
                                                   "'; supported: qwen2, deepseek-r1-qwen, llama-bpe, llama3, llama-v3"));
  }
  file.added = AddedTokens(vocabulary);
  file.tokens = vocabulary.tokens;
  for (const AddedToken& token : file.added) file.tokens[token.id].clear();
  for (size_t id = 0; id < file.tokens.size(); ++id) {
    if (vocabulary.types[id] == kUnused) file.tokens[id].clear();  // padding of the embedding: "[PAD151665]"
  }
  for (const absl::string_view merge : merges->strings) {
    const size_t space = merge.find(' ');
    if (space == absl::string_view::npos) {
      return absl::InvalidArgumentError(absl::StrCat(gguf.path(), ": merge ", file.merges.size(), " is not a pair"));
    }
    file.merges.emplace_back(merge.substr(0, space), merge.substr(space + 1));
  }
  const std::string byte_level =
      R"({"type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true, "use_regex": false})";
  if (split->nfc) file.normalizer = R"({"type": "NFC"})";
  file.pre_tokenizer = absl::StrCat(R"({"type": "Sequence", "pretokenizers": [{"type": "Split", "pattern": {"Regex": )",
                                    Quoted(split->pattern), R"(}, "behavior": "Isolated", "invert": false}, )", byte_level, "]}");
  file.decoder = byte_level;
  file.model.ignore_merges = split->ignore_merges;
  return absl::OkStatus();
}

/// Every way to cut a token into two tokens is a merge; earlier tokens merge first, and of one token's cuts the one with the
/// longer left part. The format keeps no merges of such vocabularies.
std::vector<std::pair<std::string, std::string>> RecoverMerges(const std::vector<std::string>& tokens) {
  absl::flat_hash_map<absl::string_view, size_t> ids;
  for (size_t id = 0; id < tokens.size(); ++id) ids[tokens[id]] = id;
  std::vector<std::pair<std::string, std::string>> merges;
  for (const std::string& token : tokens) {
    for (size_t cut = token.size(); cut-- > 1;) {
      if ((static_cast<uint8_t>(token[cut]) & 0xC0) == 0x80) continue;  // inside a character
      const absl::string_view left = absl::string_view(token).substr(0, cut), right = absl::string_view(token).substr(cut);
      if (ids.contains(left) && ids.contains(right)) merges.emplace_back(left, right);
    }
  }
  return merges;
}

absl::Status FillSentencePiece(const Gguf& gguf, Vocabulary vocabulary, TokenizerFile& file) {
  const std::string architecture = gguf.Text("general.architecture").value_or("");
  if (!absl::StartsWith(architecture, "gemma") || gguf.Flag("tokenizer.ggml.add_space_prefix").value_or(true)) {
    return absl::InvalidArgumentError(absl::StrCat(gguf.path(), ": sentencepiece vocabularies are supported for Gemma only"));
  }
  for (std::string& token : vocabulary.tokens) {
    // Runs of spaces stand in the file as they are; the tokenizer's text has the mark for a space.
    if (token.find_first_not_of(' ') != std::string::npos) continue;
    std::string marked;
    for (size_t i = 0; i < token.size(); ++i) marked += kWordMark;
    token = marked;
  }
  file.added = AddedTokens(vocabulary);
  file.merges = RecoverMerges(vocabulary.tokens);
  const int64_t unknown = gguf.Integer("tokenizer.ggml.unknown_token_id").value_or(-1);
  if (unknown >= 0 && unknown < static_cast<int64_t>(vocabulary.tokens.size())) {
    file.model.unknown_token = vocabulary.tokens[unknown];
  }
  file.model.byte_fallback = file.model.fuse_unknown = true;
  file.tokens = std::move(vocabulary.tokens);
  file.normalizer = R"({"type": "Replace", "pattern": {"String": " "}, "content": "▁"})";
  file.pre_tokenizer = R"({"type": "Split", "pattern": {"String": " "}, "behavior": "MergedWithPrevious", "invert": false})";
  file.decoder = R"({"type": "Sequence", "decoders": [{"type": "Replace", "pattern": {"String": "▁"}, "content": " "}, )"
                 R"({"type": "ByteFallback"}, {"type": "Fuse"}]})";
  return absl::OkStatus();
}

std::optional<int32_t> NamedId(const Gguf& gguf, const Vocabulary& vocabulary, const char* key) {
  const std::optional<int64_t> id = gguf.Integer(absl::StrCat("tokenizer.ggml.", key));
  if (!id || *id < 0 || *id >= static_cast<int64_t>(vocabulary.tokens.size())) return std::nullopt;
  return static_cast<int32_t>(*id);
}

std::string BosTemplate(const std::string& bos, int32_t id) {
  const std::string quoted = Quoted(bos);
  return absl::StrCat(R"({"type": "TemplateProcessing", "single": [{"SpecialToken": {"id": )", quoted,
                      R"(, "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}}], "pair": [{"SpecialToken": {"id": )", quoted,
                      R"(, "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}}, {"Sequence": {"id": "B", "type_id": 1}}], )",
                      R"("special_tokens": {)", quoted, R"(: {"id": )", quoted, R"(, "ids": [)", id, R"(], "tokens": [)", quoted,
                      "]}}}");
}

std::string TokenizerConfig(const Gguf& gguf, const Vocabulary& vocabulary, const GgufTokenizer& tokenizer) {
  Json config = Json::object();
  const auto name = [&](const char* key, std::optional<int32_t> id) {
    config[key] = id ? Json(vocabulary.tokens[*id]) : Json(nullptr);
  };
  name("bos_token", tokenizer.bos);
  name("eos_token", tokenizer.eos.empty() ? std::nullopt : std::make_optional(tokenizer.eos.front()));
  name("pad_token", tokenizer.pad);
  name("unk_token", NamedId(gguf, vocabulary, "unknown_token_id"));
  config["clean_up_tokenization_spaces"] = false;
  const std::string architecture = gguf.Text("general.architecture").value_or("");
  if (const auto length = gguf.Integer(architecture + ".context_length")) config["model_max_length"] = *length;
  config["tokenizer_class"] = "PreTrainedTokenizerFast";  // takes tokenizer.json as it is
  return config.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace

absl::StatusOr<GgufTokenizer> ReadGgufTokenizer(const Gguf& gguf) {
  HONE_ASSIGN_OR_RETURN(const Vocabulary vocabulary, ReadVocabulary(gguf));
  const std::string model = gguf.Text("tokenizer.ggml.model").value_or("");
  TokenizerFile file;
  if (model == "gpt2") {
    HONE_RETURN_IF_ERROR(FillByteLevel(gguf, vocabulary, file));
  } else if (model == "llama") {
    HONE_RETURN_IF_ERROR(FillSentencePiece(gguf, vocabulary, file));
  } else {
    return absl::InvalidArgumentError(absl::StrCat(gguf.path(), ": tokenizer.ggml.model is '", absl::Utf8SafeCEscape(model),
                                                   "'; supported: gpt2, llama (Gemma)"));
  }
  GgufTokenizer tokenizer;
  tokenizer.bos = NamedId(gguf, vocabulary, "bos_token_id");
  tokenizer.pad = NamedId(gguf, vocabulary, "padding_token_id");
  if (const auto eos = NamedId(gguf, vocabulary, "eos_token_id")) tokenizer.eos.push_back(*eos);
  for (const char* ending : kEndings) {
    for (const AddedToken& token : file.added) {
      const bool known = std::find(tokenizer.eos.begin(), tokenizer.eos.end(), token.id) != tokenizer.eos.end();
      if (token.text == ending && token.special && !known) tokenizer.eos.push_back(token.id);
    }
  }
  if (tokenizer.bos && gguf.Flag("tokenizer.ggml.add_bos_token").value_or(model == "llama")) {
    file.post_processor = BosTemplate(vocabulary.tokens[*tokenizer.bos], *tokenizer.bos);
  }
  tokenizer.json = WriteTokenizerJson(file);
  tokenizer.config = TokenizerConfig(gguf, vocabulary, tokenizer);
  tokenizer.chat_template = gguf.Text("tokenizer.chat_template");
  return tokenizer;
}

}  // namespace hone::policy
