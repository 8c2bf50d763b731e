#include "policy/tokenizer/unicode.h"

#include <cstring>

namespace hone::policy {
namespace {

constexpr char kReplacement[] = "\xEF\xBF\xBD";

enum class Utf8Kind { kWhole, kBroken, kCut };

struct Utf8Unit {
  size_t size;  // bytes; at least 1
  Utf8Kind kind;
};

/// The unit that starts at `text[at]`. kCut: the text ends inside a character that is well-formed so far.
Utf8Unit UnitAt(absl::string_view text, size_t at) {
  const auto byte = [&](size_t i) { return static_cast<uint8_t>(text[i]); };
  const uint8_t lead = byte(at);
  if (lead < 0x80) return {1, Utf8Kind::kWhole};
  if (lead < 0xC2 || lead > 0xF4) return {1, Utf8Kind::kBroken};
  const size_t size = lead < 0xE0 ? 2 : lead < 0xF0 ? 3 : 4;
  uint8_t low = 0x80, high = 0xBF;  // of the second byte: no overlong forms, no surrogates, nothing above U+10FFFF
  if (lead == 0xE0) low = 0xA0;
  if (lead == 0xED) high = 0x9F;
  if (lead == 0xF0) low = 0x90;
  if (lead == 0xF4) high = 0x8F;
  for (size_t i = 1; i < size; ++i) {
    if (at + i == text.size()) return {i, Utf8Kind::kCut};
    if (byte(at + i) < low || byte(at + i) > high) return {i, Utf8Kind::kBroken};
    low = 0x80;
    high = 0xBF;
  }
  return {size, Utf8Kind::kWhole};
}

/// Where the first byte that is not ASCII stands, from `at` on.
size_t SkipAscii(absl::string_view text, size_t at) {
  uint64_t block;
  while (at + sizeof block <= text.size()) {
    std::memcpy(&block, text.data() + at, sizeof block);
    if (block & 0x8080808080808080u) break;
    at += sizeof block;
  }
  while (at < text.size() && static_cast<uint8_t>(text[at]) < 0x80) ++at;
  return at;
}

}  // namespace

bool IsValidUtf8(absl::string_view text) {
  for (size_t at = SkipAscii(text, 0); at < text.size(); at = SkipAscii(text, at)) {
    const Utf8Unit unit = UnitAt(text, at);
    if (unit.kind != Utf8Kind::kWhole) return false;
    at += unit.size;
  }
  return true;
}

std::string RepairUtf8(absl::string_view text) {
  std::string repaired;
  repaired.reserve(text.size());
  for (size_t at = 0; at < text.size();) {
    const size_t ascii_end = SkipAscii(text, at);
    repaired.append(text.data() + at, ascii_end - at);
    at = ascii_end;
    if (at == text.size()) break;
    const Utf8Unit unit = UnitAt(text, at);
    if (unit.kind == Utf8Kind::kWhole) {
      repaired.append(text.data() + at, unit.size);
    } else {
      repaired.append(kReplacement);
    }
    at += unit.size;
  }
  return repaired;
}

size_t SettledUtf8Prefix(absl::string_view text) {
  // Only the last three bytes can belong to a character that is still open.
  for (size_t back = 1; back <= 3 && back <= text.size(); ++back) {
    const size_t at = text.size() - back;
    const uint8_t byte = static_cast<uint8_t>(text[at]);
    if (byte >= 0xC0) return UnitAt(text, at).kind == Utf8Kind::kCut ? at : text.size();
    if (byte < 0x80) break;
  }
  return text.size();
}

char32_t NextChar(absl::string_view text, size_t& at) {
  const auto byte = [&](size_t i) { return static_cast<char32_t>(static_cast<uint8_t>(text[at + i])); };
  const char32_t lead = byte(0);
  if (lead < 0x80) {
    at += 1;
    return lead;
  }
  if (lead < 0xE0) {
    const char32_t character = (lead & 0x1F) << 6 | (byte(1) & 0x3F);
    at += 2;
    return character;
  }
  if (lead < 0xF0) {
    const char32_t character = (lead & 0x0F) << 12 | (byte(1) & 0x3F) << 6 | (byte(2) & 0x3F);
    at += 3;
    return character;
  }
  const char32_t character = (lead & 0x07) << 18 | (byte(1) & 0x3F) << 12 | (byte(2) & 0x3F) << 6 | (byte(3) & 0x3F);
  at += 4;
  return character;
}

void AppendChar(char32_t character, std::string& text) {
  const auto tail = [&](int shift) { text.push_back(static_cast<char>(0x80 | ((character >> shift) & 0x3F))); };
  if (character < 0x80) {
    text.push_back(static_cast<char>(character));
  } else if (character < 0x800) {
    text.push_back(static_cast<char>(0xC0 | character >> 6));
    tail(0);
  } else if (character < 0x10000) {
    text.push_back(static_cast<char>(0xE0 | character >> 12));
    tail(6);
    tail(0);
  } else {
    text.push_back(static_cast<char>(0xF0 | character >> 18));
    tail(12);
    tail(6);
    tail(0);
  }
}

bool IsWhiteSpace(char32_t c) {
  return (c >= 0x09 && c <= 0x0D) || c == 0x20 || c == 0x85 || c == 0xA0 || c == 0x1680 || (c >= 0x2000 && c <= 0x200A) ||
         c == 0x2028 || c == 0x2029 || c == 0x202F || c == 0x205F || c == 0x3000;
}

ByteAlphabet::ByteAlphabet() {
  bytes_.fill(-1);
  char32_t next = 0x100;
  for (int byte = 0; byte < 256; ++byte) {
    const bool printable = (byte >= '!' && byte <= '~') || (byte >= 0xA1 && byte <= 0xAC) || byte >= 0xAE;
    chars_[byte] = printable ? static_cast<char32_t>(byte) : next++;
    bytes_[chars_[byte]] = static_cast<int16_t>(byte);
  }
}

std::optional<uint8_t> ByteAlphabet::Byte(char32_t character) const {
  if (character >= bytes_.size() || bytes_[character] < 0) return std::nullopt;
  return static_cast<uint8_t>(bytes_[character]);
}

std::optional<std::string> ByteAlphabet::Unspell(absl::string_view spelling) const {
  if (!IsValidUtf8(spelling)) return std::nullopt;
  std::string bytes;
  for (size_t at = 0; at < spelling.size();) {
    const std::optional<uint8_t> byte = Byte(NextChar(spelling, at));
    if (!byte) return std::nullopt;
    bytes.push_back(static_cast<char>(*byte));
  }
  return bytes;
}

}  // namespace hone::policy
