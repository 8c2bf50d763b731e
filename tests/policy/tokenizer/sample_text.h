#pragma once

// Texts on which tokenizers tend to differ: code, many scripts, emoji, combining marks, every kind of white space, control
// characters, broken UTF-8, long runs, special tokens spelled out. The same on every machine, so that the ids which HF
// tokenizers gave once can be kept as hashes.

#include <cstdint>
#include <string>
#include <vector>

#include "absl/types/span.h"

namespace hone::policy {

/// Text `i` depends on `i` alone. Any bytes; up to a few kilobytes each.
std::string SampleText(uint64_t i);

/// What the files of expected ids hold for a text: the first four bytes of SHA-256 over the ids as little-endian int32.
uint32_t HashIds(absl::Span<const int32_t> ids);

}  // namespace hone::policy
