#include "policy/tokenizer/added_tokens.h"

#include "policy/tokenizer/unicode.h"

namespace hone::policy {

AddedTokenFinder::AddedTokenFinder(std::vector<AddedToken> tokens, const std::vector<std::string>& texts)
    : tokens_(std::move(tokens)), nodes_(1) {
  for (size_t i = 0; i < tokens_.size(); ++i) {
    if (texts[i].empty()) continue;
    int32_t node = 0;
    for (const char c : texts[i]) {
      const uint8_t byte = static_cast<uint8_t>(c);
      int32_t child = Child(node, byte);
      if (child < 0) {
        child = static_cast<int32_t>(nodes_.size());
        nodes_[node].next.emplace_back(byte, child);
        nodes_.emplace_back();
      }
      node = child;
    }
    nodes_[node].token = static_cast<int32_t>(i);
    starts_[static_cast<uint8_t>(texts[i][0])] = true;
  }
}

int32_t AddedTokenFinder::Child(int32_t node, uint8_t byte) const {
  for (const auto& [key, child] : nodes_[node].next) {
    if (key == byte) return child;
  }
  return -1;
}

std::pair<int32_t, size_t> AddedTokenFinder::LongestAt(absl::string_view text, size_t at, bool parse_special) const {
  std::pair<int32_t, size_t> longest{-1, 0};
  int32_t node = 0;
  for (size_t i = at; i < text.size(); ++i) {
    node = Child(node, static_cast<uint8_t>(text[i]));
    if (node < 0) break;
    const int32_t token = nodes_[node].token;
    if (token >= 0 && (parse_special || !tokens_[token].special)) longest = {token, i + 1 - at};
  }
  return longest;
}

std::optional<AddedTokenFinder::Found> AddedTokenFinder::Next(absl::string_view text, size_t from, size_t floor,
                                                              bool parse_special) const {
  for (size_t at = from; at < text.size(); ++at) {
    if (!starts_[static_cast<uint8_t>(text[at])]) continue;
    const auto [index, length] = LongestAt(text, at, parse_special);
    if (index < 0) continue;
    Found found{at, at + length, tokens_[index].id};
    while (tokens_[index].lstrip && found.begin > floor) {
      size_t before = found.begin - 1;
      while (before > floor && (static_cast<uint8_t>(text[before]) & 0xC0) == 0x80) --before;
      size_t end = before;
      if (!IsWhiteSpace(NextChar(text, end))) break;
      found.begin = before;
    }
    while (tokens_[index].rstrip && found.end < text.size()) {
      size_t end = found.end;
      if (!IsWhiteSpace(NextChar(text, end))) break;
      found.end = end;
    }
    return found;
  }
  return std::nullopt;
}

}  // namespace hone::policy
