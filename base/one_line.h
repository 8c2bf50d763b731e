#pragma once

#include <string>

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/string_view.h"

namespace hone {

/// `text` with its control characters, line ends among them, written as C writes them: for one line of a log or an error,
/// whatever a user's value holds.
inline std::string OneLine(absl::string_view text) {
  std::string out;
  for (const char c : text) {
    if (absl::ascii_iscntrl(static_cast<unsigned char>(c))) {
      out += absl::CEscape(absl::string_view(&c, 1));
    } else {
      out += c;
    }
  }
  return out;
}

}  // namespace hone
