#pragma once

// The entry point that a policy fills in, written so that what is known to go wrong does not: headers are there, and every
// tensor of several dimensions stands with the formula of its flat index (a flat pointer indexed twice was the most frequent
// compile error of a small coder model).

#include <string>

#include "base/signature.h"

namespace hone::rollout {

/// Headers, a comment line a tensor, and `launch` with an empty body:
///   // x [rows, cols]: x[i * cols + j]
std::string Skeleton(const Signature& signature);

}  // namespace hone::rollout
