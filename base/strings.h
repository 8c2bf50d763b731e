#pragma once

// Conversions between the two string views. Signatures of hone take absl::string_view; some builds of Abseil (Debian's
// among them) make it a type of its own that does not convert to std::string_view.

#include <string_view>

#include "absl/strings/string_view.h"

namespace hone {

inline std::string_view StdView(absl::string_view text) { return {text.data(), text.size()}; }
inline absl::string_view AbslView(std::string_view text) { return {text.data(), text.size()}; }

}  // namespace hone
