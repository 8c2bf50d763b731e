#pragma once

// How CUDA's names are called in MUSA: the one table that `hone musify` and the build stage convert by, in both
// directions.
//
// Sources: torch_musa's porting map (cuda -> musa, cu -> mu, nv -> mt, .cuh -> .muh, dispatch key CUDA -> PrivateUse1)
// and its lists of headers and names; MUSA's own headers where projects that were ported quote them.

#include <vector>

#include "absl/strings/string_view.h"

namespace hone::verifier {

enum class MusifyKind {
  kName,        // a whole identifier of C++
  kPrefix,      // the begin of an identifier, before an upper-case letter or a digit: cudaMalloc, not cuda_helper
  kStart,       // the begin of an identifier, whatever follows, or all of it
  kNamespace,   // an identifier that stands beside `::`
  kHeader,      // the whole path of an #include
  kExtension,   // the end of a file's name, in #include and for files
  kPythonName,  // dotted names of Python
  kPythonWord,  // keyword arguments, attributes and methods of Python
  kDevice,      // a string of Python that is a device's name, alone or before ":N"
};

/// One pair of names. `both_ways` is false where several of CUDA's become one of MUSA's: the way back takes another
/// row.
struct MusifyRow {
  MusifyKind kind;
  absl::string_view cuda;
  absl::string_view musa;
  bool both_ways = true;
};

/// In the order of need: of several that fit, the first counts.
const std::vector<MusifyRow>& MusifyTable();

/// What has no counterpart, or one that does something else. Names begin so (`prefix`) or are exactly so.
struct MusifyGap {
  absl::string_view name;
  bool prefix;
  bool blocks;  // it will not compile or run; else it does, and a person should look
  absl::string_view why;
};

/// Of C++ that goes from CUDA to MUSA.
const std::vector<MusifyGap>& MusifyGaps();

}  // namespace hone::verifier
