// Any text as a native candidate, and as what a compiler says of one: it is read to its end, its lines keep their numbers, and
// converting it to MUSA twice is converting it once.

#include <algorithm>
#include <cstdlib>
#include <string>

#include "verifier/build/compiler_output.h"
#include "verifier/build/cuda_source.h"
#include "verifier/build/rewriter.h"
#include "verifier/musify/musify.h"
#include "verifier/rules/source_rules.h"

namespace {

int64_t Lines(absl::string_view text) { return std::count(text.begin(), text.end(), '\n'); }

void CheckTokens(const hone::verifier::CudaSource& source) {
  size_t end = 0;
  for (size_t i = 0; i < source.tokens().size(); ++i) {
    const hone::verifier::Token& token = source.tokens()[i];
    if (token.begin < end || token.end <= token.begin || token.end > source.text().size()) std::abort();
    end = token.end;
    const size_t close = source.Close(i);
    if (close < source.tokens().size() && source.Open(close) != i) std::abort();
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace hone::verifier;
  const std::string text(reinterpret_cast<const char*>(data), size);
  const CudaSource source(text);
  CheckTokens(source);
  for (const Assembly assembly : {Assembly::kNowhere, Assembly::kInDeviceCode}) (void)CheckSource(source, assembly);
  (void)CheckAssembly(text, "/headers");
  (void)CheckNvccAssembly(text, {"/headers"});
  for (const bool checked : {false, true}) {
    if (Lines(RewriteCuda(text, {.checked = checked}).source) != Lines(text)) std::abort();
  }
  for (const Direction direction : {Direction::kToMusa, Direction::kToCuda}) {
    const std::string once = Musify(text, Language::kCxx, direction).text;
    if (Lines(once) != Lines(text) || Musify(once, Language::kCxx, direction).text != once) std::abort();
    const std::string module = Musify(text, Language::kPython, direction).text;
    if (Musify(module, Language::kPython, direction).text != module) std::abort();
  }
  (void)FormatCompilerErrors(ParseCompilerErrors(text), text);
  return 0;
}
