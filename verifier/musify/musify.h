#pragma once

// Musify: CUDA sources to MUSA and back, by the table of table.h.
//
//   Musify("cudaMalloc(&p, n);", Language::kCxx, Direction::kToMusa).text == "musaMalloc(&p, n);"
//
// It reads tokens, not meanings. In C++ names, headers and macros change; strings, characters and comments never do. In
// Python dotted names, methods, keyword arguments and whole strings that name a device ("cuda", "cuda:0") change, and
// so do strings of several lines that are C++ themselves, by the rules of C++. A MUSA module also needs `import
// torch_musa`, which is added behind the first `import torch` and taken away on the way back. Lines of C++ keep their
// numbers.
//
// Converting twice is converting once, and a source that names nothing of MUSA's comes back from MUSA as it was, but
// for rows that lead one way (table.h).
//
// Pure; needs neither toolkit.

#include <string>
#include <vector>

#include "absl/strings/string_view.h"

namespace hone::verifier {

enum class Direction { kToMusa, kToCuda };
enum class Language { kCxx, kPython };

/// Something that a table of names cannot convert.
struct MusifyFinding {
  int line = 0;
  std::string what;  // the token
  std::string why;
  bool blocks = true;  // it will not compile or run; else a person should look
};

struct Musified {
  std::string text;
  int replaced = 0;
  std::vector<MusifyFinding> findings;  // in order of lines; only on the way to MUSA
};

Musified Musify(absl::string_view text, Language language, Direction direction);

/// "kernels/softmax.cu" -> "kernels/softmax.mu". Names that end in nothing of the table stay.
std::string MusifiedName(absl::string_view path, Direction direction);

/// What a single identifier of C++ becomes; itself where the table has nothing.
std::string MusifiedIdentifier(absl::string_view name, Direction direction);

}  // namespace hone::verifier
