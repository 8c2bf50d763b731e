#pragma once

// The code that is compiled around a native candidate: the declaration of `launch` before it, so that another signature is
// an error on the candidate's own line, and behind it the C function of verifier/runner/abi.h that calls it. The same for
// every backend whose dialect is CUDA's.

#include <string>

#include "base/signature.h"

namespace hone::verifier {

struct Glue {
  std::string before;  // ends in a line end
  std::string after;   // begins with one
};

Glue MakeGlue(const Signature& signature);

}  // namespace hone::verifier
