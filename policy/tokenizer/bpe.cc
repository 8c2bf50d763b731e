#include "policy/tokenizer/bpe.h"

#include <algorithm>
#include <cstring>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/status_macros.h"
#include "policy/tokenizer/unicode.h"

namespace hone::policy {
namespace {

constexpr uint64_t kFree = ~uint64_t{0};
constexpr uint32_t kNoRank = ~uint32_t{0};
constexpr size_t kShortSymbols = 40;  // below, a linear search for the best merge beats a heap

// Classes of characters for the question whether a merge may join across a boundary.
constexpr int kWordMark = 128;  // U+2581, sentencepiece's space
constexpr int kAnyOther = 129;
constexpr int kClasses = 130;

int ClassOf(char32_t character) {
  if (character < 128) return static_cast<int>(character);
  return character == 0x2581 ? kWordMark : kAnyOther;
}

uint64_t PairKey(int32_t left, int32_t right) {
  return static_cast<uint64_t>(static_cast<uint32_t>(left)) << 32 | static_cast<uint32_t>(right);
}

size_t HashPair(uint64_t pair) {
  pair *= 0x9E3779B97F4A7C15u;
  return static_cast<size_t>(pair ^ pair >> 32);
}

uint64_t HashWord(absl::string_view word) {
  uint64_t hash = 0xCBF29CE484222325u ^ word.size();
  size_t at = 0;
  for (; at + 8 <= word.size(); at += 8) {
    uint64_t block;
    std::memcpy(&block, word.data() + at, 8);
    hash = (hash ^ block) * 0x9E3779B97F4A7C15u;
    hash ^= hash >> 29;
  }
  uint64_t rest = 0;
  if (at < word.size()) std::memcpy(&rest, word.data() + at, word.size() - at);
  hash = (hash ^ rest) * 0x9E3779B97F4A7C15u;
  return hash ^ hash >> 32;
}

std::string ByteToken(int byte) { return absl::StrFormat("<0x%02X>", byte); }

}  // namespace

/// A word and its ids in one cache line; a later word with the same slot replaces it.
struct BpeScratch::State {
  static constexpr size_t kSlots = 1 << 15;
  static constexpr size_t kTextBytes = 38;
  static constexpr size_t kIds = 6;
  struct alignas(64) Slot {
    int32_t ids[kIds];
    uint8_t id_count;
    uint8_t text_size = 0;  // 0: empty
    char text[kTextBytes];
  };
  static_assert(sizeof(Slot) == 64);

  struct Candidate {
    uint32_t rank;
    int32_t left;  // index of the left symbol
    int32_t id;    // what the pair becomes
    bool operator<(const Candidate& other) const {  // std::priority_queue pops the greatest
      return rank != other.rank ? rank > other.rank : left > other.left;
    }
  };
  struct Link {
    int32_t previous;
    int32_t next;
  };

  std::vector<Slot> slots = std::vector<Slot>(kSlots);
  std::vector<int32_t> symbols;
  std::vector<uint32_t> ranks;
  std::vector<int32_t> results;
  std::vector<Link> links;
  std::vector<Candidate> heap;
};

BpeScratch::BpeScratch() : state_(std::make_unique<State>()) {}
BpeScratch::~BpeScratch() = default;

absl::StatusOr<std::unique_ptr<Bpe>> Bpe::Create(std::vector<std::string> tokens,
                                                 const std::vector<std::pair<std::string, std::string>>& merges,
                                                 const BpeOptions& options) {
  auto bpe = std::unique_ptr<Bpe>(new Bpe());
  bpe->options_ = options;
  HONE_RETURN_IF_ERROR(bpe->AddTokens(std::move(tokens)));
  HONE_RETURN_IF_ERROR(bpe->FindBaseSymbols());
  HONE_RETURN_IF_ERROR(bpe->AddMerges(merges));
  return bpe;
}

absl::Status Bpe::AddTokens(std::vector<std::string> tokens) {
  tokens_ = std::move(tokens);
  ids_.reserve(tokens_.size());
  const ByteAlphabet alphabet;
  for (size_t id = 0; id < tokens_.size(); ++id) {
    const std::string& token = tokens_[id];
    if (token.empty()) continue;
    const auto [at, added] = ids_.emplace(token, static_cast<int32_t>(id));
    if (!added) {
      return absl::InvalidArgumentError(absl::StrCat("token '", absl::Utf8SafeCEscape(token), "' has two ids, ", at->second, " and ", id));
    }
    if (!options_.ignore_merges) continue;
    if (!options_.byte_level) {
      whole_pieces_.emplace(token, static_cast<int32_t>(id));
    } else if (const auto bytes = alphabet.Unspell(token)) {
      whole_pieces_.emplace(*bytes, static_cast<int32_t>(id));
    }
  }
  return absl::OkStatus();
}

absl::Status Bpe::FindBaseSymbols() {
  const ByteAlphabet alphabet;
  for (int byte = 0; byte < 256; ++byte) {
    std::string spelling = ByteToken(byte);
    if (options_.byte_level) {
      spelling.clear();
      AppendChar(alphabet.Char(static_cast<uint8_t>(byte)), spelling);
    }
    byte_ids_[byte] = IdOf(spelling);
    if (options_.byte_fallback && byte_ids_[byte] < 0) {
      return absl::InvalidArgumentError(absl::StrCat("byte_fallback needs the token ", spelling));
    }
  }
  if (options_.unknown_token.empty()) return absl::OkStatus();
  unknown_id_ = IdOf(options_.unknown_token);
  if (unknown_id_ >= 0) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("unk_token '", options_.unknown_token, "' is not in the vocabulary"));
}

absl::Status Bpe::AddMerges(const std::vector<std::pair<std::string, std::string>>& merges) {
  size_t slots = 16;
  while (slots < merges.size() * 2) slots *= 2;
  merges_.assign(slots, Merge{kFree, 0, 0});
  joins_.assign(kClasses * kClasses, false);
  // Cutting is exact only where a symbol's spelling is its text and a piece is not looked up as a whole.
  cuts_ = !options_.byte_level && !options_.ignore_merges && !(options_.fuse_unknown && !options_.byte_fallback);
  for (size_t rank = 0; rank < merges.size(); ++rank) {
    const auto& [left, right] = merges[rank];
    const int32_t left_id = IdOf(left), right_id = IdOf(right), id = IdOf(absl::StrCat(left, right));
    if (left_id < 0 || right_id < 0 || id < 0) {
      return absl::InvalidArgumentError(absl::StrCat("merge ", rank, " ('", left, "' '", right, "') uses '",
                                                     left_id < 0 ? left : right_id < 0 ? right : absl::StrCat(left, right),
                                                     "', which is not in the vocabulary"));
    }
    NoteJoin(left, right);
    const uint64_t pair = PairKey(left_id, right_id);
    size_t slot = HashPair(pair) & (slots - 1);
    while (merges_[slot].pair != kFree && merges_[slot].pair != pair) slot = (slot + 1) & (slots - 1);
    merges_[slot] = {pair, static_cast<uint32_t>(rank), id};
  }
  return absl::OkStatus();
}

void Bpe::NoteJoin(absl::string_view left, absl::string_view right) {
  if (!cuts_) return;
  if (!IsValidUtf8(left) || !IsValidUtf8(right)) {
    cuts_ = false;
    return;
  }
  const auto may_be_byte = [](absl::string_view token) { return token.size() == 6 && token.substr(0, 3) == "<0x"; };
  if (options_.byte_fallback && (may_be_byte(left) || may_be_byte(right))) {
    cuts_ = false;  // merged byte tokens join characters that their spelling does not show
    return;
  }
  size_t last = left.size() - 1;
  while ((static_cast<uint8_t>(left[last]) & 0xC0) == 0x80) --last;
  size_t first = 0;
  const int right_class = ClassOf(NextChar(right, first));
  joins_[ClassOf(NextChar(left, last)) * kClasses + right_class] = true;
}

int32_t Bpe::IdOf(absl::string_view spelling) const {
  const auto at = ids_.find(spelling);
  return at == ids_.end() ? -1 : at->second;
}

const Bpe::Merge* Bpe::FindMerge(int32_t left, int32_t right) const {
  const uint64_t pair = PairKey(left, right);
  for (size_t slot = HashPair(pair);; ++slot) {
    const Merge& merge = merges_[slot & (merges_.size() - 1)];
    if (merge.pair == pair) return &merge;
    if (merge.pair == kFree) return nullptr;
  }
}

void Bpe::Encode(absl::string_view piece, BpeScratch& scratch, std::vector<int32_t>& ids) const {
  if (piece.empty()) return;
  if (!cuts_) return EncodeWord(piece, scratch, ids);
  size_t begin = 0, at = 0;
  int left = ClassOf(NextChar(piece, at));
  while (at < piece.size()) {
    const size_t boundary = at;
    const int right = ClassOf(NextChar(piece, at));
    if (!joins_[left * kClasses + right]) {
      EncodeWord(piece.substr(begin, boundary - begin), scratch, ids);
      begin = boundary;
    }
    left = right;
  }
  EncodeWord(piece.substr(begin), scratch, ids);
}

void Bpe::EncodeWord(absl::string_view word, BpeScratch& scratch, std::vector<int32_t>& ids) const {
  BpeScratch::State& state = *scratch.state_;
  using State = BpeScratch::State;
  State::Slot& slot = state.slots[HashWord(word) & (State::kSlots - 1)];
  if (slot.text_size == word.size() && std::memcmp(slot.text, word.data(), word.size()) == 0) {
    ids.insert(ids.end(), slot.ids, slot.ids + slot.id_count);
    return;
  }
  std::vector<int32_t>& symbols = state.symbols;
  symbols.clear();
  const auto whole = options_.ignore_merges ? whole_pieces_.find(word) : whole_pieces_.end();
  if (whole != whole_pieces_.end()) {
    symbols.push_back(whole->second);
  } else {
    AppendSymbols(word, symbols);
    symbols.size() <= kShortSymbols ? MergeShort(symbols, scratch) : MergeLong(symbols, scratch);
  }
  ids.insert(ids.end(), symbols.begin(), symbols.end());
  if (word.size() > State::kTextBytes || symbols.size() > State::kIds) return;
  slot.text_size = static_cast<uint8_t>(word.size());
  slot.id_count = static_cast<uint8_t>(symbols.size());
  std::memcpy(slot.text, word.data(), word.size());
  std::copy(symbols.begin(), symbols.end(), slot.ids);
}

void Bpe::AppendSymbols(absl::string_view word, std::vector<int32_t>& symbols) const {
  const auto append_unknown = [&](bool follows_unknown) {
    if (unknown_id_ >= 0 && !(options_.fuse_unknown && follows_unknown)) symbols.push_back(unknown_id_);
  };
  bool unknown = false;
  for (size_t at = 0; at < word.size();) {
    const size_t begin = at;
    if (options_.byte_level) {
      ++at;
    } else {
      NextChar(word, at);
    }
    const absl::string_view character = word.substr(begin, at - begin);
    const int32_t id = options_.byte_level ? byte_ids_[static_cast<uint8_t>(character[0])] : IdOf(character);
    if (id >= 0) {
      symbols.push_back(id);
    } else if (options_.byte_fallback) {
      for (const char byte : character) symbols.push_back(byte_ids_[static_cast<uint8_t>(byte)]);
    } else {
      append_unknown(unknown);
    }
    unknown = id < 0 && !options_.byte_fallback;
  }
}

void Bpe::MergeShort(std::vector<int32_t>& symbols, BpeScratch& scratch) const {
  BpeScratch::State& state = *scratch.state_;
  size_t pairs = symbols.empty() ? 0 : symbols.size() - 1;
  state.ranks.resize(pairs);
  state.results.resize(pairs);
  const auto rate = [&](size_t i) {
    const Merge* merge = FindMerge(symbols[i], symbols[i + 1]);
    state.ranks[i] = merge == nullptr ? kNoRank : merge->rank;
    state.results[i] = merge == nullptr ? 0 : merge->id;
  };
  for (size_t i = 0; i < pairs; ++i) rate(i);
  while (pairs > 0) {
    const size_t best = std::min_element(state.ranks.begin(), state.ranks.begin() + pairs) - state.ranks.begin();
    if (state.ranks[best] == kNoRank) break;
    symbols[best] = state.results[best];
    symbols.erase(symbols.begin() + best + 1);
    state.ranks.erase(state.ranks.begin() + best);
    state.results.erase(state.results.begin() + best);
    --pairs;
    if (best < pairs) rate(best);
    if (best > 0) rate(best - 1);
  }
}

void Bpe::MergeLong(std::vector<int32_t>& symbols, BpeScratch& scratch) const {
  using State = BpeScratch::State;
  State& state = *scratch.state_;
  const int32_t count = static_cast<int32_t>(symbols.size());
  state.links.resize(count);
  for (int32_t i = 0; i < count; ++i) state.links[i] = {i - 1, i + 1 == count ? -1 : i + 1};
  state.heap.clear();
  const auto offer = [&](int32_t left) {
    const int32_t right = left < 0 ? -1 : state.links[left].next;
    if (right < 0) return;
    if (const Merge* merge = FindMerge(symbols[left], symbols[right])) {
      state.heap.push_back({merge->rank, left, merge->id});
      std::push_heap(state.heap.begin(), state.heap.end());
    }
  };
  for (int32_t i = 0; i < count; ++i) offer(i);
  while (!state.heap.empty()) {
    std::pop_heap(state.heap.begin(), state.heap.end());
    const State::Candidate best = state.heap.back();
    state.heap.pop_back();
    const int32_t right = symbols[best.left] < 0 ? -1 : state.links[best.left].next;
    if (right < 0) continue;
    const Merge* merge = FindMerge(symbols[best.left], symbols[right]);
    if (merge == nullptr || merge->id != best.id) continue;  // one of the two was merged meanwhile
    symbols[best.left] = best.id;
    symbols[right] = -1;  // gone
    const int32_t next = state.links[right].next;
    state.links[best.left].next = next;
    if (next >= 0) state.links[next].previous = best.left;
    offer(state.links[best.left].previous);
    offer(best.left);
  }
  symbols.erase(std::remove(symbols.begin(), symbols.end(), -1), symbols.end());
}

}  // namespace hone::policy
