#include "policy/tokenizer/normalizer.h"

#include <algorithm>
#include <bitset>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "policy/tokenizer/unicode.h"

namespace hone::policy {
namespace {

struct Decomposition {
  char32_t from;
  char32_t first;
  char32_t second;  // 0: a single character
  bool composes;    // NFC puts the two together again
};
struct CombiningRange {
  char32_t first;
  char32_t last;
  uint8_t combining_class;
};
#include "policy/tokenizer/nfc_tables.inc"

// Hangul syllables are LV or LVT; Unicode Standard, section 3.12.
constexpr char32_t kSyllables = 0xAC00, kLead = 0x1100, kVowel = 0x1161, kTail = 0x11A7;
constexpr char32_t kLeads = 19, kVowels = 21, kTails = 28, kSyllableCount = kLeads * kVowels * kTails;

// All characters that canonical mappings know are below this.
constexpr char32_t kMappedEnd = 0x30000;

struct Unit {
  char32_t character;
  uint8_t combining_class;
};

uint64_t PairKey(char32_t first, char32_t second) { return static_cast<uint64_t>(first) << 32 | second; }

}  // namespace

struct Nfc::Tables {
  std::bitset<kMappedEnd> may_change;  // not certainly stable in form C
  absl::flat_hash_map<char32_t, std::pair<char32_t, char32_t>> decompositions;
  absl::flat_hash_map<uint64_t, char32_t> compositions;
  absl::flat_hash_map<char32_t, uint8_t> combining_classes;

  Tables() {
    for (const Decomposition& d : kDecompositions) {
      decompositions[d.from] = {d.first, d.second};
      if (d.composes) {
        compositions[PairKey(d.first, d.second)] = d.from;
        may_change.set(d.second);
      } else {
        may_change.set(d.from);
      }
    }
    for (const CombiningRange& range : kCombiningRanges) {
      for (char32_t c = range.first; c <= range.last; ++c) {
        combining_classes[c] = range.combining_class;
        may_change.set(c);
      }
    }
    for (char32_t c = kVowel; c < kVowel + kVowels; ++c) may_change.set(c);
    for (char32_t c = kTail + 1; c < kTail + kTails; ++c) may_change.set(c);
  }

  uint8_t CombiningClass(char32_t c) const {
    if (c < 0x300) return 0;
    const auto at = combining_classes.find(c);
    return at == combining_classes.end() ? 0 : at->second;
  }

  void Decompose(char32_t c, std::vector<Unit>& units) const {
    if (c - kSyllables < kSyllableCount) {
      const char32_t index = c - kSyllables;
      units.push_back({kLead + index / (kVowels * kTails), 0});
      units.push_back({kVowel + index % (kVowels * kTails) / kTails, 0});
      if (index % kTails != 0) units.push_back({kTail + index % kTails, 0});
      return;
    }
    const auto at = c < 0xC0 ? decompositions.end() : decompositions.find(c);
    if (at == decompositions.end()) {
      units.push_back({c, CombiningClass(c)});
      return;
    }
    Decompose(at->second.first, units);
    if (at->second.second != 0) Decompose(at->second.second, units);
  }

  /// 0: the two do not compose.
  char32_t Compose(char32_t first, char32_t second) const {
    if (first - kLead < kLeads && second - kVowel < kVowels) {
      return kSyllables + ((first - kLead) * kVowels + second - kVowel) * kTails;
    }
    const char32_t syllable = first - kSyllables;
    if (syllable < kSyllableCount && syllable % kTails == 0 && second > kTail && second < kTail + kTails) {
      return first + (second - kTail);
    }
    const auto at = compositions.find(PairKey(first, second));
    return at == compositions.end() ? 0 : at->second;
  }

  /// Puts each starter together with the marks behind it that nothing blocks.
  void ComposeAll(std::vector<Unit>& units) const {
    size_t kept = 0;
    std::ptrdiff_t starter = -1;
    for (const Unit& unit : units) {
      const bool adjacent = starter >= 0 && static_cast<size_t>(starter) + 1 == kept;
      const bool blocked = !adjacent && starter >= 0 && units[kept - 1].combining_class >= unit.combining_class;
      const char32_t composed = starter < 0 || blocked ? 0 : Compose(units[starter].character, unit.character);
      if (composed != 0) {
        units[starter].character = composed;
        continue;
      }
      if (unit.combining_class == 0) starter = static_cast<std::ptrdiff_t>(kept);
      units[kept++] = unit;
    }
    units.resize(kept);
  }
};

Nfc::Nfc() : tables_(std::make_unique<Tables>()) {}
Nfc::~Nfc() = default;

bool Nfc::MayChange(absl::string_view text) const {
  for (size_t at = 0; at < text.size();) {
    if (static_cast<uint8_t>(text[at]) < 0xCC) {  // below U+0300; continuation bytes do not occur here
      at += static_cast<uint8_t>(text[at]) < 0x80 ? 1 : 2;
      continue;
    }
    const char32_t c = NextChar(text, at);
    if (c < kMappedEnd && tables_->may_change[c]) return true;
  }
  return false;
}

std::string Nfc::Apply(absl::string_view text) const {
  std::vector<Unit> units;
  units.reserve(text.size());
  for (size_t at = 0; at < text.size();) tables_->Decompose(NextChar(text, at), units);
  for (size_t begin = 0; begin < units.size();) {
    if (units[begin].combining_class == 0) {
      ++begin;
      continue;
    }
    size_t end = begin;
    while (end < units.size() && units[end].combining_class != 0) ++end;
    std::stable_sort(units.begin() + begin, units.begin() + end,
                     [](const Unit& a, const Unit& b) { return a.combining_class < b.combining_class; });
    begin = end;
  }
  tables_->ComposeAll(units);
  std::string composed;
  composed.reserve(text.size());
  for (const Unit& unit : units) AppendChar(unit.character, composed);
  return composed;
}

Normalizer::Normalizer(std::vector<NormalizerStep> steps) : steps_(std::move(steps)) {
  for (const NormalizerStep& step : steps_) {
    if (step.kind == NormalizerStep::Kind::kNfc && nfc_ == nullptr) nfc_ = std::make_shared<const Nfc>();
  }
}

absl::string_view Normalizer::Apply(absl::string_view text, std::string& storage) const {
  for (const NormalizerStep& step : steps_) {
    switch (step.kind) {
      case NormalizerStep::Kind::kNfc:
        if (!nfc_->MayChange(text)) continue;
        storage = nfc_->Apply(text);
        break;
      case NormalizerStep::Kind::kReplace:
        if (!absl::StrContains(text, step.from)) continue;
        storage = absl::StrReplaceAll(text, {{step.from, step.to}});
        break;
      case NormalizerStep::Kind::kPrepend:
        if (text.empty()) continue;
        storage = absl::StrCat(step.to, text);
        break;
    }
    text = storage;
  }
  return text;
}

}  // namespace hone::policy
