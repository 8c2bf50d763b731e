// Any text as an answer of a model: what is taken out of it is no more than was in it, and a block made of anything gives
// it back.

#include <cstdlib>
#include <string>

#include "rollout/prompt/markdown.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace hone::rollout;
  const std::string text(reinterpret_cast<const char*>(data), size);
  for (const char* marker : {"launch", "ModelNew"}) {
    const auto code = CodeOf(text, marker);
    if (code && code->size() > text.size() + 1) std::abort();
  }
  for (const int64_t limit : {0, 1, 7, 100}) {
    if (Shortened(text, limit).size() > static_cast<size_t>(limit) + 100 && Shortened(text, limit) != text) std::abort();
  }
  const std::string code = text + "\nlaunch\n";
  if (code.find("</think>") == std::string::npos && CodeOf(CodeBlock("cuda", code), "launch") != code) std::abort();
  return 0;
}
