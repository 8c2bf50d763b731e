// Any text as a chat template: refused, or it ends within its limits.

#include <string>

#include "policy/chat/evaluate.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace hone::policy::chat;
  const auto block = ParseTemplate(std::string(reinterpret_cast<const char*>(data), size));
  if (!block.ok()) return 0;
  const Dict message = {{"role", "user"}, {"content", "hi"}};
  const Dict variables = {{"messages", MakeList({MakeDict(message), MakeDict(message)})}, {"tools", None{}}};
  (void)Render(*block, variables, [](const std::string&) { return std::string("now"); },
               {.steps = 20000, .output_bytes = 1 << 20, .made_bytes = 16 << 20});
  return 0;
}
