#include "policy/tokenizer/tokenizer_json.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "policy/tokenizer/unicode.h"

namespace hone::policy {
namespace {

using Json = nlohmann::json;

constexpr int64_t kIdLimit = 1 << 22;  // ids index arrays; a lying file must not make them huge
constexpr char kGpt2Pattern[] = R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)";

absl::Status Bad(absl::string_view what) { return absl::InvalidArgumentError(what); }

absl::Status Unsupported(absl::string_view part, absl::string_view type, absl::string_view supported) {
  return Bad(absl::StrCat(part, " '", absl::Utf8SafeCEscape(type), "' is not supported; supported: ", supported));
}

std::string TypeOf(const Json& object) {
  const auto at = object.is_object() ? object.find("type") : object.end();
  return object.is_object() && at != object.end() && at->is_string() ? at->get<std::string>() : "";
}

bool Flag(const Json& object, const char* key, bool otherwise) {
  const auto at = object.find(key);
  return at != object.end() && at->is_boolean() ? at->get<bool>() : otherwise;
}

std::string Text(const Json& object, const char* key) {
  const auto at = object.find(key);
  return at != object.end() && at->is_string() ? at->get<std::string>() : "";
}

bool Absent(const Json& object, const char* key) {
  const auto at = object.find(key);
  return at == object.end() || at->is_null();
}

absl::StatusOr<int32_t> ReadId(const Json& value, absl::string_view what) {
  if (!value.is_number_integer() || value.get<int64_t>() < 0 || value.get<int64_t>() >= kIdLimit) {
    return Bad(absl::StrCat("the id of ", what, " is ", absl::Utf8SafeCEscape(value.dump()), "; allowed 0..", kIdLimit - 1));
  }
  return static_cast<int32_t>(value.get<int64_t>());
}

/// The items of a Sequence, or the thing itself; nothing for null.
std::vector<const Json*> StepsOf(const Json& file, const char* part, const char* list_key) {
  if (Absent(file, part)) return {};
  const Json& root = file[part];
  std::vector<const Json*> steps;
  if (TypeOf(root) != "Sequence") return {&root};
  if (const auto list = root.find(list_key); list != root.end() && list->is_array()) {
    for (const Json& step : *list) steps.push_back(&step);
  }
  return steps;
}

/// {"String": ..} or {"Regex": ..}.
absl::StatusOr<std::shared_ptr<const Pattern>> ReadPattern(const Json& step) {
  const auto at = step.find("pattern");
  if (at == step.end() || !at->is_object()) return Bad("a Split without pattern");
  if (at->contains("String")) return Pattern::CompileLiteral(Text(*at, "String"));
  return Pattern::Compile(Text(*at, "Regex"));
}

absl::StatusOr<NormalizerStep> ReadReplace(const Json& step) {
  const auto at = step.find("pattern");
  const std::string from = at != step.end() && at->is_object() ? Text(*at, "String") : "";
  if (from.empty()) return Bad("a Replace needs a pattern {\"String\": ..}");
  return NormalizerStep{NormalizerStep::Kind::kReplace, from, Text(step, "content")};
}

absl::StatusOr<Normalizer> ReadNormalizer(const Json& file) {
  std::vector<NormalizerStep> steps;
  for (const Json* step : StepsOf(file, "normalizer", "normalizers")) {
    const std::string type = TypeOf(*step);
    if (type == "NFC") {
      steps.push_back({NormalizerStep::Kind::kNfc, "", ""});
    } else if (type == "Replace") {
      HONE_ASSIGN_OR_RETURN(steps.emplace_back(), ReadReplace(*step));
    } else if (type == "Prepend") {
      steps.push_back({NormalizerStep::Kind::kPrepend, "", Text(*step, "prepend")});
    } else {
      return Unsupported("normalizer", type, "NFC, Replace, Prepend, Sequence");
    }
  }
  return Normalizer(std::move(steps));
}

absl::StatusOr<SplitStep> ReadSplit(const Json& step) {
  using Behavior = SplitStep::Behavior;
  constexpr std::pair<const char*, Behavior> kBehaviors[] = {{"Isolated", Behavior::kIsolated},
                                                             {"Removed", Behavior::kRemoved},
                                                             {"MergedWithPrevious", Behavior::kMergedWithPrevious},
                                                             {"MergedWithNext", Behavior::kMergedWithNext},
                                                             {"Contiguous", Behavior::kContiguous}};
  SplitStep split;
  HONE_ASSIGN_OR_RETURN(split.pattern, ReadPattern(step));
  split.invert = Flag(step, "invert", false);
  const std::string behavior = Text(step, "behavior");
  for (const auto& [word, value] : kBehaviors) {
    if (behavior != word) continue;
    split.behavior = value;
    return split;
  }
  return Unsupported("Split behavior", behavior, "Isolated, Removed, MergedWithPrevious, MergedWithNext, Contiguous");
}

/// Whether the pieces' bytes are the model's symbols.
absl::StatusOr<bool> ReadPreTokenizer(const Json& file, std::vector<SplitStep>& splits) {
  bool byte_level = false;
  for (const Json* step : StepsOf(file, "pre_tokenizer", "pretokenizers")) {
    const std::string type = TypeOf(*step);
    if (byte_level) return Bad("pre_tokenizer ByteLevel must come last");
    if (type == "Split") {
      HONE_ASSIGN_OR_RETURN(splits.emplace_back(), ReadSplit(*step));
    } else if (type == "ByteLevel") {
      byte_level = true;
      SplitStep split;
      split.prefix_space = Flag(*step, "add_prefix_space", true);
      if (Flag(*step, "use_regex", true)) {
        HONE_ASSIGN_OR_RETURN(split.pattern, Pattern::Compile(kGpt2Pattern));
      }
      if (split.pattern != nullptr || split.prefix_space) splits.push_back(std::move(split));
    } else {
      return Unsupported("pre_tokenizer", type, "Split, ByteLevel, Sequence");
    }
  }
  return byte_level;
}

absl::StatusOr<std::vector<std::string>> ReadVocabulary(const Json& model) {
  if (Absent(model, "vocab") || !model["vocab"].is_object()) return Bad("model.vocab is not an object");
  std::vector<std::string> tokens;
  tokens.reserve(model["vocab"].size());
  for (const auto& [spelling, value] : model["vocab"].items()) {
    HONE_ASSIGN_OR_RETURN(const int32_t id, ReadId(value, absl::StrCat("token '", absl::Utf8SafeCEscape(spelling), "'")));
    if (static_cast<size_t>(id) >= tokens.size()) tokens.resize(id + 1);
    if (spelling.empty()) return Bad(absl::StrCat("token ", id, " is the empty string"));
    if (!tokens[id].empty()) return Bad(absl::StrCat("id ", id, " belongs to two tokens"));
    tokens[id] = spelling;
  }
  if (tokens.empty()) return Bad("model.vocab is empty");
  return tokens;
}

absl::StatusOr<std::vector<std::pair<std::string, std::string>>> ReadMerges(const Json& model) {
  if (Absent(model, "merges") || !model["merges"].is_array()) return Bad("model.merges is not a list");
  std::vector<std::pair<std::string, std::string>> merges;
  merges.reserve(model["merges"].size());
  for (const Json& merge : model["merges"]) {
    if (merge.is_array() && merge.size() == 2 && merge[0].is_string() && merge[1].is_string()) {
      merges.emplace_back(merge[0].get<std::string>(), merge[1].get<std::string>());
      continue;
    }
    const std::string text = merge.is_string() ? merge.get<std::string>() : "";
    const size_t space = text.find(' ');
    if (space == std::string::npos || text.find(' ', space + 1) != std::string::npos) {
      return Bad(absl::StrCat("merge ", merges.size(), " is not a pair"));
    }
    merges.emplace_back(text.substr(0, space), text.substr(space + 1));
  }
  return merges;
}

absl::Status ReadModel(const Json& file, bool byte_level, TokenizerParts& parts) {
  if (Absent(file, "model") || !file["model"].is_object()) return Bad("has no model");
  const Json& model = file["model"];
  const std::string type = TypeOf(model);
  if (type != "BPE" && !(type.empty() && model.contains("merges"))) return Unsupported("model", type, "BPE");
  for (const char* key : {"continuing_subword_prefix", "end_of_word_suffix"}) {
    if (!Text(model, key).empty()) return Unsupported(key, Text(model, key), "none");
  }
  if (!Absent(model, "dropout") && model["dropout"] != 0.0) return Unsupported("dropout", model["dropout"].dump(), "none");
  BpeOptions options;
  options.byte_level = byte_level;
  options.byte_fallback = Flag(model, "byte_fallback", false);
  options.ignore_merges = Flag(model, "ignore_merges", false);
  options.fuse_unknown = Flag(model, "fuse_unk", false);
  options.unknown_token = Text(model, "unk_token");
  HONE_ASSIGN_OR_RETURN(parts.tokens, ReadVocabulary(model));
  HONE_ASSIGN_OR_RETURN(const auto merges, ReadMerges(model));
  HONE_ASSIGN_OR_RETURN(parts.bpe, Bpe::Create(parts.tokens, merges, options));
  return absl::OkStatus();
}

absl::Status ReadAddedTokens(const Json& file, TokenizerParts& parts) {
  if (Absent(file, "added_tokens")) return absl::OkStatus();
  if (!file["added_tokens"].is_array()) return Bad("added_tokens is not a list");
  for (const Json& entry : file["added_tokens"]) {
    if (!entry.is_object() || Text(entry, "content").empty() || Absent(entry, "id")) {
      return Bad(absl::StrCat("added token ", parts.added.size(), " lacks content or id"));
    }
    AddedToken token;
    token.text = Text(entry, "content");
    HONE_ASSIGN_OR_RETURN(token.id,
                          ReadId(entry["id"], absl::StrCat("added token '", absl::Utf8SafeCEscape(token.text), "'")));
    token.special = Flag(entry, "special", false);
    token.normalized = Flag(entry, "normalized", !token.special);
    token.lstrip = Flag(entry, "lstrip", false);
    token.rstrip = Flag(entry, "rstrip", false);
    if (Flag(entry, "single_word", false)) return Unsupported("added token flag", "single_word", "lstrip, rstrip, normalized");
    parts.added.push_back(std::move(token));
  }
  return absl::OkStatus();
}

std::optional<int32_t> FindToken(const TokenizerParts& parts, const std::string& spelling) {
  for (const AddedToken& token : parts.added) {
    if (token.text == spelling) return token.id;
  }
  const int32_t id = parts.bpe->IdOf(spelling);
  return id < 0 ? std::nullopt : std::make_optional(id);
}

absl::Status ReadTemplate(const Json& step, TokenizerParts& parts) {
  if (Absent(step, "single") || !step["single"].is_array()) return Bad("TemplateProcessing without a list 'single'");
  bool seen_text = false;
  for (const Json& item : step["single"]) {
    if (item.is_object() && item.contains("Sequence")) {
      seen_text = true;
      continue;
    }
    const std::string name = item.is_object() && item.contains("SpecialToken") ? Text(item["SpecialToken"], "id") : "";
    const std::optional<int32_t> id = name.empty() ? std::nullopt : FindToken(parts, name);
    if (!id) return Bad(absl::StrCat("TemplateProcessing uses '", absl::Utf8SafeCEscape(name), "', which is no token"));
    (seen_text ? parts.after : parts.before).push_back(*id);
  }
  return absl::OkStatus();
}

absl::Status ReadPostProcessor(const Json& file, TokenizerParts& parts) {
  for (const Json* step : StepsOf(file, "post_processor", "processors")) {
    const std::string type = TypeOf(*step);
    if (type == "TemplateProcessing") {
      HONE_RETURN_IF_ERROR(ReadTemplate(*step, parts));
    } else if (type != "ByteLevel") {  // moves offsets only
      return Unsupported("post_processor", type, "TemplateProcessing, ByteLevel, Sequence");
    }
  }
  return absl::OkStatus();
}

absl::Status ReadDecoder(const Json& file, DecoderSteps& decoder) {
  for (const Json* step : StepsOf(file, "decoder", "decoders")) {
    const std::string type = TypeOf(*step);
    if (type == "ByteLevel") {
      decoder.byte_level = true;
    } else if (type == "ByteFallback") {
      decoder.byte_fallback = true;
    } else if (type == "Replace") {
      if (decoder.byte_fallback) return Bad("decoder Replace must come before ByteFallback");
      HONE_ASSIGN_OR_RETURN(decoder.replaces.emplace_back(), ReadReplace(*step));
    } else if (type != "Fuse") {  // joins, as we always do
      return Unsupported("decoder", type, "ByteLevel, Replace, ByteFallback, Fuse, Sequence");
    }
  }
  if (decoder.byte_level && (decoder.byte_fallback || !decoder.replaces.empty())) {
    return Bad("decoder ByteLevel together with others is not supported");
  }
  return absl::OkStatus();
}

absl::StatusOr<TokenizerParts> ReadParts(const std::string& text) {
  const Json file = Json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (file.is_discarded()) return Bad("is not valid JSON, or is cut");
  if (!file.is_object()) return Bad("is not a JSON object");
  TokenizerParts parts;
  HONE_ASSIGN_OR_RETURN(parts.normalizer, ReadNormalizer(file));
  HONE_ASSIGN_OR_RETURN(const bool byte_level, ReadPreTokenizer(file, parts.splits));
  HONE_RETURN_IF_ERROR(ReadModel(file, byte_level, parts));
  HONE_RETURN_IF_ERROR(ReadAddedTokens(file, parts));
  HONE_RETURN_IF_ERROR(ReadPostProcessor(file, parts));
  HONE_RETURN_IF_ERROR(ReadDecoder(file, parts.decoder));
  return parts;
}

}  // namespace

std::string WriteTokenizerJson(const TokenizerFile& file) {
  const auto quoted = [](const std::string& text) { return Json(text).dump(-1, ' ', false, Json::error_handler_t::replace); };
  const auto flag = [](bool value) { return value ? "true" : "false"; };
  std::string out = "{\n  \"version\": \"1.0\",\n  \"truncation\": null,\n  \"padding\": null,\n  \"added_tokens\": [";
  const char* comma = "\n";
  for (const AddedToken& token : file.added) {
    absl::StrAppend(&out, comma, "    {\"id\": ", token.id, ", \"content\": ", quoted(token.text), ", \"single_word\": false",
                    ", \"lstrip\": ", flag(token.lstrip), ", \"rstrip\": ", flag(token.rstrip));
    absl::StrAppend(&out, ", \"normalized\": ", flag(token.normalized), ", \"special\": ", flag(token.special), "}");
    comma = ",\n";
  }
  absl::StrAppend(&out, "\n  ],\n  \"normalizer\": ", file.normalizer, ",\n  \"pre_tokenizer\": ", file.pre_tokenizer,
                  ",\n  \"post_processor\": ", file.post_processor, ",\n  \"decoder\": ", file.decoder);
  const BpeOptions& model = file.model;
  absl::StrAppend(&out, ",\n  \"model\": {\n    \"type\": \"BPE\",\n    \"dropout\": null,\n    \"unk_token\": ",
                  model.unknown_token.empty() ? "null" : quoted(model.unknown_token),
                  ",\n    \"continuing_subword_prefix\": null,\n    \"end_of_word_suffix\": null,\n    \"fuse_unk\": ",
                  flag(model.fuse_unknown), ",\n    \"byte_fallback\": ", flag(model.byte_fallback));
  absl::StrAppend(&out, ",\n    \"ignore_merges\": ", flag(model.ignore_merges), ",\n    \"vocab\": {");
  comma = "\n";
  for (size_t id = 0; id < file.tokens.size(); ++id) {
    if (file.tokens[id].empty()) continue;
    absl::StrAppend(&out, comma, "      ", quoted(file.tokens[id]), ": ", id);
    comma = ",\n";
  }
  absl::StrAppend(&out, "\n    },\n    \"merges\": [");
  comma = "\n";
  for (const auto& [left, right] : file.merges) {
    absl::StrAppend(&out, comma, "      [", quoted(left), ", ", quoted(right), "]");
    comma = ",\n";
  }
  absl::StrAppend(&out, "\n    ]\n  }\n}\n");
  return out;
}

absl::StatusOr<TokenizerParts> ReadTokenizerJson(const std::string& json, const std::string& name) {
  absl::StatusOr<TokenizerParts> parts = ReadParts(json);
  if (parts.ok()) return parts;
  return absl::Status(parts.status().code(), absl::StrCat(name, ": ", parts.status().message()));
}

}  // namespace hone::policy
