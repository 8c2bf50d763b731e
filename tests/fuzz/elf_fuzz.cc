// Any bytes as an object that a compiler made of a candidate: refused, or its symbols are read and judged by the rules.

#include <algorithm>
#include <cstdlib>

#include "verifier/build/elf_symbols.h"
#include "verifier/rules/object_rules.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace hone::verifier;
  const auto summary = SummariseElf(absl::string_view(reinterpret_cast<const char*>(data), size));
  if (!summary.ok()) {
    if (summary.status().code() != absl::StatusCode::kInvalidArgument) std::abort();
    return 0;
  }
  for (const auto* names : {&summary->undefined, &summary->exported}) {
    if (!std::is_sorted(names->begin(), names->end())) std::abort();
  }
  (void)CheckObject(*summary);
  (void)CheckGpuObject(*summary);
  return 0;
}
