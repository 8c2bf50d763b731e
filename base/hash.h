#pragma once

// Content keys: SHA-256 over length-prefixed parts, so that {"ab","c"} and {"a","bc"} differ.

#include <cstdint>
#include <initializer_list>
#include <string>

#include "absl/strings/string_view.h"

namespace hone {

/// 64 lower-case hexadecimal digits.
std::string Sha256Hex(absl::string_view bytes);
std::string ContentKey(std::initializer_list<absl::string_view> parts);

/// Castagnoli CRC, as TensorBoard event files and journals use it.
uint32_t Crc32c(absl::string_view bytes);

}  // namespace hone
