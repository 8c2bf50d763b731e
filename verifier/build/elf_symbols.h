#pragma once

// What an ELF object asks of others and runs by itself: the facts that the legality check of native candidates needs.

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace hone::verifier {

struct ElfSummary {
  std::vector<std::string> undefined;     // symbols that another library must provide, sorted
  std::vector<std::string> exported;      // global or weak symbols it defines with default visibility, sorted
  std::vector<std::string> initialisers;  // sections whose code runs when it is loaded or unloaded
};

/// Reads a little-endian 64-bit object or shared library. Never reads outside `bytes`. kInvalidArgument: not such a file,
/// or cut.
absl::StatusOr<ElfSummary> SummariseElf(absl::string_view bytes);

}  // namespace hone::verifier
