#pragma once

// Text: conversions between the two string views, UTF-8, the nearest of several words. Signatures of hone take
// absl::string_view; some builds of Abseil (Debian's among them) make it a type of its own that does not convert to
// std::string_view.

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "absl/strings/string_view.h"

namespace hone {

inline std::string_view StdView(absl::string_view text) { return {text.data(), text.size()}; }
inline absl::string_view AbslView(std::string_view text) { return {text.data(), text.size()}; }

/// Offset of the first byte that belongs to no UTF-8 sequence (RFC 3629: no surrogates, no overlong forms, nothing
/// above U+10FFFF), or absl::string_view::npos when all of `text` is UTF-8.
size_t FirstNonUtf8(absl::string_view text);

/// `text` with each run of bytes that belong to no sequence replaced by one U+FFFD; unchanged when it is UTF-8.
std::string ToUtf8(absl::string_view text);

/// Insertions, deletions and substitutions that turn `a` into `b`.
size_t EditDistance(absl::string_view a, absl::string_view b);

/// The word that needs the fewest insertions, deletions and substitutions to become `word`, the first of equals; empty
/// when there are no words. For "did you mean".
std::string NearestWord(absl::string_view word, const std::vector<std::string>& words);

}  // namespace hone
