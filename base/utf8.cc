#include "base/utf8.h"

#include <cstddef>

namespace hone {
namespace {

struct Sequence {
  size_t bytes;  // of the well-formed character, or of the ill-formed part
  bool valid;
};

/// Reads one character at the start of non-empty `text`.
Sequence ReadSequence(absl::string_view text) {
  const auto byte = [&](size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned char lead = byte(0);
  if (lead < 0x80) return {1, true};
  const size_t length = lead >= 0xf0 ? 4 : lead >= 0xe0 ? 3 : 2;
  if (lead < 0xc2 || lead > 0xf4) return {1, false};
  // The second byte's range rules out overlong forms, surrogates and values above U+10FFFF.
  const unsigned char low = lead == 0xe0 ? 0xa0 : lead == 0xf0 ? 0x90 : 0x80;
  const unsigned char high = lead == 0xed ? 0x9f : lead == 0xf4 ? 0x8f : 0xbf;
  for (size_t i = 1; i < length; ++i) {
    if (i == text.size() || byte(i) < (i == 1 ? low : 0x80) || byte(i) > (i == 1 ? high : 0xbf)) return {i, false};
  }
  return {length, true};
}

}  // namespace

bool IsUtf8(absl::string_view text) {
  while (!text.empty()) {
    const Sequence sequence = ReadSequence(text);
    if (!sequence.valid) return false;
    text.remove_prefix(sequence.bytes);
  }
  return true;
}

std::string ToUtf8(absl::string_view text) {
  std::string valid;
  valid.reserve(text.size());
  while (!text.empty()) {
    const Sequence sequence = ReadSequence(text);
    if (sequence.valid) {
      valid.append(text.data(), sequence.bytes);
    } else {
      valid += "\xef\xbf\xbd";
    }
    text.remove_prefix(sequence.bytes);
  }
  return valid;
}

}  // namespace hone
