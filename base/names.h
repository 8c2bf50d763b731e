#pragma once

// Enumerations as text: one table serves both directions.

#include <array>
#include <cstddef>
#include <optional>
#include <utility>

#include "absl/strings/string_view.h"
#include "base/status_macros.h"

namespace hone {

template <class Enum, size_t kCount>
using NameTable = std::array<std::pair<Enum, absl::string_view>, kCount>;

template <class Enum, size_t kCount>
absl::string_view NameIn(const NameTable<Enum, kCount>& table, Enum value) {
  for (const auto& [candidate, name] : table) {
    if (candidate == value) return name;
  }
  HONE_CHECK(!"an enumerator without a name");
}

template <class Enum, size_t kCount>
std::optional<Enum> ParseIn(const NameTable<Enum, kCount>& table, absl::string_view name) {
  for (const auto& [value, candidate] : table) {
    if (candidate == name) return value;
  }
  return std::nullopt;
}

}  // namespace hone
