#pragma once

// Reads Python as far as names go: what is a name, a string or neither, with the string's text inside its quotes.

#include <cstddef>
#include <vector>

#include "absl/strings/string_view.h"

namespace hone::verifier {

struct PythonToken {
  enum class Kind { kName, kString, kOther };
  Kind kind = Kind::kOther;
  size_t begin = 0;  // bytes [begin, end) of the text; of a string: between its quotes
  size_t end = 0;
  int line = 0;
  bool formatted = false;  // an f-string
};

/// Comments and blanks are in no token; anything else that is no name and no string is one byte of kOther. Never fails:
/// an open string ends with the text, or with its line where it has single quotes.
std::vector<PythonToken> ReadPython(absl::string_view text);

}  // namespace hone::verifier
