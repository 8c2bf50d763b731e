#pragma once

// Learns a byte-level BPE vocabulary from text.

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "policy/tokenizer/tokenizer.h"

namespace hone::policy {

struct TrainBpeOptions {
  /// Take the first ids, in this order.
  std::vector<std::string> special_tokens;
  /// Splits text into pieces; merges never cross a piece's end.
  std::string pattern = R"( ?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+|\s+)";
  /// Every byte gets a token, so that any text can be encoded. False: only bytes of the corpus; others vanish when encoded.
  bool all_bytes = true;
  /// A pair rarer than this is not merged, even if the vocabulary stays smaller.
  int64_t min_count = 2;
};

/// Ids: special tokens, then bytes in the order of their spelling, then merges by falling count (ties: the pair with the
/// smaller ids). Deterministic, and equal to HF tokenizers' BpeTrainer with a ByteLevel alphabet.
/// The tokenizer's json() is a complete tokenizer.json.
/// kInvalidArgument: `vocab_size` does not hold the special tokens and bytes, or the pattern does not compile.
/// Source: Sennrich et al., arXiv:1508.07909, algorithm 1. Time: O(corpus + merges × pairs that change).
absl::StatusOr<std::unique_ptr<Tokenizer>> TrainBpe(absl::Span<const std::string> corpus, int32_t vocab_size,
                                                    const TrainBpeOptions& options = {});

}  // namespace hone::policy
