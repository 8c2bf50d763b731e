#pragma once

// UTF-8 and the byte alphabet of GPT-2 style vocabularies.

#include <array>
#include <cstdint>
#include <optional>
#include <string>

#include "absl/strings/string_view.h"

namespace hone::policy {

bool IsValidUtf8(absl::string_view text);

/// Each maximal ill-formed part becomes one U+FFFD, as the Unicode standard recommends (table 3-8) and as Python's
/// errors="replace" and Rust's from_utf8_lossy do.
std::string RepairUtf8(absl::string_view text);

/// Bytes of the longest prefix that no later byte can change: whole characters and parts already ill-formed.
size_t SettledUtf8Prefix(absl::string_view text);

/// The character at `text[at]` of valid UTF-8; moves `at` behind it.
char32_t NextChar(absl::string_view text, size_t& at);
void AppendChar(char32_t character, std::string& text);

/// Unicode's White_Space property.
bool IsWhiteSpace(char32_t character);

/// Byte-level vocabularies write each byte as a printable character: itself where it is one, else U+0100 and following.
/// Source: bytes_to_unicode of GPT-2.
class ByteAlphabet {
 public:
  ByteAlphabet();
  char32_t Char(uint8_t byte) const { return chars_[byte]; }
  std::optional<uint8_t> Byte(char32_t character) const;

  /// Nothing when a character is outside the alphabet or the spelling is not UTF-8.
  std::optional<std::string> Unspell(absl::string_view spelling) const;

 private:
  std::array<char32_t, 256> chars_;
  std::array<int16_t, 324> bytes_;  // -1: not in the alphabet
};

}  // namespace hone::policy
