#pragma once

// Where a text holds GPU code whose exactness decides everything: kernels' bodies and launches' configurations (CuSeT,
// arXiv:2606.16231, eq. 3). No compiler: answers are texts around code, and the code may not compile.

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace hone::trainer {

/// Half-open range of bytes.
struct ByteRange {
  size_t begin, end;
  bool operator==(const ByteRange&) const = default;
};

/// The regions of `text`, ascending, disjoint. They are
///   - functions qualified __global__ or __device__, from the qualifier (with a template<...> right before it) to the
///   closing
///     brace of the body; a body that the text cuts ends with it; a declaration without body ends with its semicolon;
///   - launches: from the kernel's name before <<< to the >>> and the arguments up to the closing parenthesis;
///   - definitions of dim3 variables, up to the semicolon.
/// Braces in comments, strings and character literals do not count, nor does anything that looks like code inside them.
std::vector<ByteRange> CudaRegions(absl::string_view text);

/// 1 for each token that has a byte in a region. `ends` [tokens]: where each token's bytes end, ascending (TokenEnds in
/// dataset.h); a token's bytes begin where the one before it ends.
std::vector<uint8_t> TokensIn(const std::vector<ByteRange>& regions, const std::vector<size_t>& ends);

}  // namespace hone::trainer
