#pragma once

// UTF-8 as the Unicode standard defines it (table 3-7): no overlong forms, no surrogates, nothing above U+10FFFF.

#include <string>

#include "absl/strings/string_view.h"

namespace hone {

bool IsUtf8(absl::string_view text);

/// The text with each maximal ill-formed part replaced by U+FFFD (Unicode 15, section 3.9); unchanged when valid.
std::string ToUtf8(absl::string_view text);

}  // namespace hone
