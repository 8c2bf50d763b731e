#pragma once

// Byte-pair encoding of one piece of text: the merges, and nothing about how text was split into pieces.

#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace hone::policy {

struct BpeOptions {
  bool byte_level = false;     // symbols start as bytes (GPT-2 alphabet); else as characters
  bool byte_fallback = false;  // a character outside the vocabulary becomes its bytes' tokens <0x00>..<0xFF>
  bool ignore_merges = false;  // a piece that is a token as a whole is that token, whatever the merges say
  bool fuse_unknown = false;   // neighbouring unknown characters become one unknown token
  std::string unknown_token;   // empty: unknown characters vanish, as in HF tokenizers
};

/// Memory that encoding reuses, and the results of recent words. For one Bpe and one thread at a time.
class BpeScratch {
 public:
  BpeScratch();
  ~BpeScratch();
  BpeScratch(const BpeScratch&) = delete;
  BpeScratch& operator=(const BpeScratch&) = delete;

 private:
  friend class Bpe;
  struct State;
  std::unique_ptr<State> state_;
};

/// Merges by lowest rank, leftmost first, as HF tokenizers' BPE model does; equal to it to the id.
/// Immutable; encode with one BpeScratch per thread.
/// Source: Sennrich et al., arXiv:1508.07909, algorithm 1; the order of ties is that of HF tokenizers.
class Bpe {
 public:
  /// `tokens[id]` is the token's spelling in the vocabulary's own alphabet; an empty spelling is an unused id. `merges` are
  /// pairs of spellings in order of rank.
  /// kInvalidArgument: a merge whose parts or result are not in the vocabulary, a spelling used by two ids, or a byte token
  /// missing under byte_fallback.
  static absl::StatusOr<std::unique_ptr<Bpe>> Create(std::vector<std::string> tokens,
                                                     const std::vector<std::pair<std::string, std::string>>& merges,
                                                     const BpeOptions& options);

  /// Appends the ids of `piece` (valid UTF-8, or any bytes with byte_level).
  void Encode(absl::string_view piece, BpeScratch& scratch, std::vector<int32_t>& ids) const;

  /// -1: not a token.
  int32_t IdOf(absl::string_view spelling) const;

 private:
  struct Merge {
    uint64_t pair;  // left id << 32 | right id; kNoPair marks a free slot
    uint32_t rank;
    int32_t id;
  };
  Bpe() = default;
  absl::Status AddTokens(std::vector<std::string> tokens);
  absl::Status AddMerges(const std::vector<std::pair<std::string, std::string>>& merges);
  absl::Status FindBaseSymbols();
  const Merge* FindMerge(int32_t left, int32_t right) const;
  void NoteJoin(absl::string_view left, absl::string_view right);

  void EncodeWord(absl::string_view word, BpeScratch& scratch, std::vector<int32_t>& ids) const;
  void AppendSymbols(absl::string_view word, std::vector<int32_t>& symbols) const;
  void MergeShort(std::vector<int32_t>& symbols, BpeScratch& scratch) const;
  void MergeLong(std::vector<int32_t>& symbols, BpeScratch& scratch) const;

  BpeOptions options_;
  std::vector<std::string> tokens_;
  absl::flat_hash_map<absl::string_view, int32_t> ids_;     // by spelling
  absl::flat_hash_map<std::string, int32_t> whole_pieces_;  // ignore_merges: by the text that the token stands for
  std::vector<Merge> merges_;                               // open addressing; size a power of two
  std::array<int32_t, 256> byte_ids_{};                     // -1: no token
  int32_t unknown_id_ = -1;
  bool cuts_ = false;        // pieces may be cut where merges never join
  std::vector<bool> joins_;  // [class of the last character, class of the first]: some merge joins such a pair
};

}  // namespace hone::policy
