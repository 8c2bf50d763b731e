// A tokenizer.json, a zero byte, and a text: refused, or the text is encoded and what comes out decodes to UTF-8.

#include <cstdlib>
#include <string>

#include "policy/tokenizer/tokenizer.h"
#include "policy/tokenizer/unicode.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string input(reinterpret_cast<const char*>(data), size);
  const size_t end = std::min(input.find('\0'), input.size());
  const auto tokenizer = hone::policy::Tokenizer::FromJson(input.substr(0, end), "fuzz");
  if (!tokenizer.ok()) return 0;
  const auto ids = (*tokenizer)->Encode(absl::string_view(input).substr(end), {.add_special = true});
  if (ids.ok() && !hone::policy::IsValidUtf8((*tokenizer)->Decode(*ids))) std::abort();
  return 0;
}
