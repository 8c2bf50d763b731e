#include "policy/tokenizer/tokenizer.h"

#include <cstdlib>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/synchronization/mutex.h"
#include "base/file.h"
#include "base/status_macros.h"
#include "policy/tokenizer/added_tokens.h"
#include "policy/tokenizer/bpe.h"
#include "policy/tokenizer/pattern.h"
#include "policy/tokenizer/tokenizer_json.h"
#include "policy/tokenizer/unicode.h"

namespace hone::policy {
namespace {

/// What one call of Encode works with.
struct EncodeScratch {
  BpeScratch bpe;
  PatternMatcher matcher;
  std::vector<std::string> prefixed;           // [split step] the piece with its space in front
  std::vector<std::vector<TextPart>> parts;    // [split step]
  std::string normalized;
};

/// What a token stands for in decoded text.
struct DecodedToken {
  std::string bytes;
  bool fallback_byte = false;
  bool special = false;
};

std::optional<uint8_t> FallbackByte(absl::string_view spelling) {
  if (spelling.size() != 6 || spelling.substr(0, 3) != "<0x" || spelling[5] != '>') return std::nullopt;
  if (!isxdigit(static_cast<uint8_t>(spelling[3])) || !isxdigit(static_cast<uint8_t>(spelling[4]))) return std::nullopt;
  return static_cast<uint8_t>(std::strtol(std::string(spelling.substr(3, 2)).c_str(), nullptr, 16));
}

DecodedToken DecodeSpelling(std::string spelling, const DecoderSteps& steps, const ByteAlphabet& alphabet) {
  DecodedToken decoded;
  if (steps.byte_level) {
    decoded.bytes = alphabet.Unspell(spelling).value_or(spelling);
    return decoded;
  }
  for (const NormalizerStep& step : steps.replaces) spelling = absl::StrReplaceAll(spelling, {{step.from, step.to}});
  const std::optional<uint8_t> byte = steps.byte_fallback ? FallbackByte(spelling) : std::nullopt;
  decoded.fallback_byte = byte.has_value();
  decoded.bytes = byte ? std::string(1, static_cast<char>(*byte)) : spelling;
  return decoded;
}

/// Joins or drops parts as the step says, in place.
void ApplyBehavior(const SplitStep& split, std::vector<TextPart>& parts) {
  using Behavior = SplitStep::Behavior;
  if (split.behavior == Behavior::kIsolated) return;
  size_t kept = 0;
  bool previous = false;
  for (TextPart part : parts) {
    part.is_match = part.is_match != split.invert;
    bool joins = false;
    if (split.behavior == Behavior::kContiguous) joins = previous == part.is_match;
    if (split.behavior == Behavior::kMergedWithPrevious) joins = part.is_match && !previous;
    if (split.behavior == Behavior::kMergedWithNext) joins = !part.is_match && previous;
    previous = part.is_match;
    if (split.behavior == Behavior::kRemoved && part.is_match) continue;
    if (joins && kept > 0) {
      parts[kept - 1].end = part.end;
    } else {
      parts[kept++] = part;
    }
  }
  parts.resize(kept);
}

}  // namespace

struct Tokenizer::State {
  std::string json;
  TokenizerParts parts;
  std::vector<std::string> spellings;  // [id]
  std::vector<DecodedToken> decoded;   // [id]
  absl::flat_hash_map<std::string, int32_t> added_ids;
  std::unique_ptr<AddedTokenFinder> raw_finder;
  std::unique_ptr<AddedTokenFinder> normalized_finder;
  SpecialIds special_ids;
  absl::Mutex mutex;
  std::vector<std::unique_ptr<EncodeScratch>> idle ABSL_GUARDED_BY(mutex);

  absl::Status AddTokens();
  void MakeFinders();

  std::unique_ptr<EncodeScratch> Borrow();
  void Return(std::unique_ptr<EncodeScratch> scratch);

  absl::Status EncodeRaw(absl::string_view text, bool parse_special, EncodeScratch& scratch, std::vector<int32_t>& ids);
  absl::Status EncodeNormalized(absl::string_view text, bool parse_special, EncodeScratch& scratch,
                                std::vector<int32_t>& ids);
  absl::Status EncodePiece(absl::string_view piece, size_t step, EncodeScratch& scratch, std::vector<int32_t>& ids);
};

absl::Status Tokenizer::State::AddTokens() {
  spellings = parts.tokens;
  std::vector<bool> special(spellings.size(), false);
  for (const AddedToken& token : parts.added) {
    if (static_cast<size_t>(token.id) >= spellings.size()) {
      spellings.resize(token.id + 1);
      special.resize(token.id + 1, false);
    }
    std::string& spelling = spellings[token.id];
    const int32_t in_model = parts.bpe->IdOf(token.text);
    if ((!spelling.empty() && spelling != token.text) || (in_model >= 0 && in_model != token.id)) {
      return absl::InvalidArgumentError(absl::StrCat("added token '", absl::Utf8SafeCEscape(token.text), "' has id ", token.id,
                                                     ", which disagrees with the vocabulary"));
    }
    spelling = token.text;
    special[token.id] = token.special;
    added_ids[token.text] = token.id;
  }
  const ByteAlphabet alphabet;
  decoded.resize(spellings.size());
  for (size_t id = 0; id < spellings.size(); ++id) {
    decoded[id] = DecodeSpelling(spellings[id], parts.decoder, alphabet);
    decoded[id].special = special[id];
  }
  return absl::OkStatus();
}

void Tokenizer::State::MakeFinders() {
  std::vector<AddedToken> raw, normalized;
  std::vector<std::string> raw_texts, normalized_texts;
  for (const AddedToken& token : parts.added) {
    std::string storage;
    (token.normalized ? normalized : raw).push_back(token);
    (token.normalized ? normalized_texts : raw_texts)
        .push_back(token.normalized ? std::string(parts.normalizer.Apply(token.text, storage)) : token.text);
  }
  raw_finder = std::make_unique<AddedTokenFinder>(std::move(raw), raw_texts);
  normalized_finder = std::make_unique<AddedTokenFinder>(std::move(normalized), normalized_texts);
}

std::unique_ptr<EncodeScratch> Tokenizer::State::Borrow() {
  {
    absl::MutexLock lock(&mutex);
    if (!idle.empty()) {
      auto scratch = std::move(idle.back());
      idle.pop_back();
      return scratch;
    }
  }
  auto scratch = std::make_unique<EncodeScratch>();
  scratch->prefixed.resize(parts.splits.size());
  scratch->parts.resize(parts.splits.size());
  return scratch;
}

void Tokenizer::State::Return(std::unique_ptr<EncodeScratch> scratch) {
  absl::MutexLock lock(&mutex);
  idle.push_back(std::move(scratch));
}

absl::Status Tokenizer::State::EncodeRaw(absl::string_view text, bool parse_special, EncodeScratch& scratch,
                                         std::vector<int32_t>& ids) {
  size_t done = 0, from = 0;
  while (const auto found = raw_finder->Next(text, from, done, parse_special)) {
    HONE_RETURN_IF_ERROR(EncodeNormalized(text.substr(done, found->begin - done), parse_special, scratch, ids));
    ids.push_back(found->id);
    done = from = found->end;
  }
  return EncodeNormalized(text.substr(done), parse_special, scratch, ids);
}

absl::Status Tokenizer::State::EncodeNormalized(absl::string_view raw, bool parse_special, EncodeScratch& scratch,
                                                std::vector<int32_t>& ids) {
  if (raw.empty()) return absl::OkStatus();
  const absl::string_view text = parts.normalizer.Apply(raw, scratch.normalized);
  size_t done = 0;
  while (const auto found = normalized_finder->Next(text, done, done, parse_special)) {
    HONE_RETURN_IF_ERROR(EncodePiece(text.substr(done, found->begin - done), 0, scratch, ids));
    ids.push_back(found->id);
    done = found->end;
  }
  return EncodePiece(text.substr(done), 0, scratch, ids);
}

absl::Status Tokenizer::State::EncodePiece(absl::string_view piece, size_t step, EncodeScratch& scratch,
                                           std::vector<int32_t>& ids) {
  if (piece.empty()) return absl::OkStatus();
  if (step == parts.splits.size()) {
    parts.bpe->Encode(piece, scratch.bpe, ids);
    return absl::OkStatus();
  }
  const SplitStep& split = parts.splits[step];
  if (split.prefix_space && piece.front() != ' ') {
    scratch.prefixed[step] = absl::StrCat(" ", piece);
    piece = scratch.prefixed[step];
  }
  if (split.pattern == nullptr) return EncodePiece(piece, step + 1, scratch, ids);
  std::vector<TextPart>& text_parts = scratch.parts[step];
  HONE_RETURN_IF_ERROR(scratch.matcher.Split(*split.pattern, piece, text_parts));
  ApplyBehavior(split, text_parts);
  for (const TextPart& part : text_parts) {
    HONE_RETURN_IF_ERROR(EncodePiece(piece.substr(part.begin, part.end - part.begin), step + 1, scratch, ids));
  }
  return absl::OkStatus();
}

Tokenizer::Tokenizer(std::unique_ptr<State> state) : state_(std::move(state)) {}
Tokenizer::~Tokenizer() = default;

absl::StatusOr<std::unique_ptr<Tokenizer>> Tokenizer::FromJson(std::string json, const std::string& name) {
  auto state = std::make_unique<State>();
  HONE_ASSIGN_OR_RETURN(state->parts, ReadTokenizerJson(json, name));
  if (const absl::Status status = state->AddTokens(); !status.ok()) {
    return absl::Status(status.code(), absl::StrCat(name, ": ", status.message()));
  }
  state->MakeFinders();
  state->json = std::move(json);
  return std::unique_ptr<Tokenizer>(new Tokenizer(std::move(state)));
}

absl::StatusOr<std::vector<int32_t>> Tokenizer::Encode(absl::string_view text, EncodeOptions options) const {
  std::string repaired;
  if (!IsValidUtf8(text)) {
    repaired = RepairUtf8(text);
    text = repaired;
  }
  std::vector<int32_t> ids;
  ids.reserve(text.size() / 3 + 8);
  const TokenizerParts& parts = state_->parts;
  if (options.add_special) ids = parts.before;
  std::unique_ptr<EncodeScratch> scratch = state_->Borrow();
  const absl::Status status = state_->EncodeRaw(text, options.parse_special, *scratch, ids);
  state_->Return(std::move(scratch));
  HONE_RETURN_IF_ERROR(status);
  if (options.add_special) ids.insert(ids.end(), parts.after.begin(), parts.after.end());
  return ids;
}

std::string Tokenizer::Decode(absl::Span<const int32_t> ids, bool skip_special) const {
  StreamDecoder decoder(*this, skip_special);
  std::string text;
  for (const int32_t id : ids) text += decoder.Push(id);
  return text + decoder.Finish();
}

int32_t Tokenizer::vocab_size() const { return static_cast<int32_t>(state_->spellings.size()); }

const std::string& Tokenizer::Spelling(int32_t id) const {
  static const std::string kNone;
  return id >= 0 && id < vocab_size() ? state_->spellings[id] : kNone;
}

std::optional<int32_t> Tokenizer::IdOf(absl::string_view spelling) const {
  if (const auto at = state_->added_ids.find(spelling); at != state_->added_ids.end()) return at->second;
  const int32_t id = state_->parts.bpe->IdOf(spelling);
  return id < 0 ? std::nullopt : std::make_optional(id);
}

bool Tokenizer::IsSpecial(int32_t id) const { return id >= 0 && id < vocab_size() && state_->decoded[id].special; }

const Tokenizer::SpecialIds& Tokenizer::special_ids() const { return state_->special_ids; }
void Tokenizer::set_special_ids(SpecialIds ids) { state_->special_ids = std::move(ids); }

const std::string& Tokenizer::json() const { return state_->json; }

absl::Status Tokenizer::Save(const std::string& folder) const {
  return WriteFileAtomically(absl::StrCat(folder, "/tokenizer.json"), state_->json);
}

StreamDecoder::StreamDecoder(const Tokenizer& tokenizer, bool skip_special)
    : tokenizer_(&tokenizer), skip_special_(skip_special) {}

std::string StreamDecoder::Push(int32_t id) {
  if (id < 0 || id >= tokenizer_->vocab_size()) return "";
  const DecodedToken& token = tokenizer_->state_->decoded[id];
  if (skip_special_ && token.special) return "";
  if (token.fallback_byte) {
    byte_run_ += token.bytes;
    return "";
  }
  CloseByteRun();
  pending_ += token.bytes;
  const size_t settled = SettledUtf8Prefix(pending_);
  std::string text = RepairUtf8(absl::string_view(pending_).substr(0, settled));
  pending_.erase(0, settled);
  return text;
}

void StreamDecoder::CloseByteRun() {
  if (byte_run_.empty()) return;
  if (IsValidUtf8(byte_run_)) {
    pending_ += byte_run_;
  } else {
    for (size_t i = 0; i < byte_run_.size(); ++i) pending_ += "\xEF\xBF\xBD";
  }
  byte_run_.clear();
}

std::string StreamDecoder::Finish() {
  CloseByteRun();
  std::string text = RepairUtf8(pending_);
  pending_.clear();
  return text;
}

}  // namespace hone::policy
