#pragma once

// Finds special and added tokens in text, before anything else looks at it. Only the tokenizer's own files use this.

#include <array>
#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "absl/strings/string_view.h"
#include "policy/tokenizer/tokenizer_json.h"

namespace hone::policy {

/// Leftmost, then longest, as HF tokenizers seeks them. Immutable.
class AddedTokenFinder {
 public:
  /// `texts[i]` is what to look for instead of `tokens[i].text` (the normalised text, say).
  AddedTokenFinder(std::vector<AddedToken> tokens, const std::vector<std::string>& texts);

  struct Found {
    size_t begin;  // bytes, white space that the token takes along included
    size_t end;
    int32_t id;
  };
  /// The next token that starts at or behind `from`. `floor`: white space before it (lstrip) is taken down to here.
  /// `parse_special` false: special tokens are not sought.
  std::optional<Found> Next(absl::string_view text, size_t from, size_t floor, bool parse_special) const;
  bool empty() const { return tokens_.empty(); }

 private:
  struct Node {
    std::vector<std::pair<uint8_t, int32_t>> next;
    int32_t token = -1;  // index into tokens_ of the token that ends here
  };
  int32_t Child(int32_t node, uint8_t byte) const;
  /// Index of the longest token at `at`, and its length in bytes; -1: none.
  std::pair<int32_t, size_t> LongestAt(absl::string_view text, size_t at, bool parse_special) const;

  std::vector<AddedToken> tokens_;
  std::vector<Node> nodes_;
  std::array<bool, 256> starts_{};  // bytes that some token starts with
};

}  // namespace hone::policy
