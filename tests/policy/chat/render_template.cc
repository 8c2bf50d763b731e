// render_template TEMPLATE < conversations.jsonl: for each {"messages": [..], ..variables..} the rendered text as a JSON string
// on a line, or null where the template refuses. For check_templates.py, which compares with HF transformers.

#include <cstdio>
#include <fstream>
#include <iostream>
#include <nlohmann/json.hpp>
#include <string>

#include "base/file.h"
#include "policy/chat/evaluate.h"

int main(int argc, char** argv) {
  using namespace hone::policy::chat;
  const auto source = hone::ReadFile(argc > 1 ? argv[1] : "");
  if (!source.ok()) return 2;
  const auto block = ParseTemplate(*source);
  if (!block.ok()) {
    std::fprintf(stderr, "%s\n", std::string(block.status().message()).c_str());
    return 2;
  }
  std::string line;
  while (std::getline(std::cin, line)) {
    const Value variables = FromJson(nlohmann::ordered_json::parse(line));
    const auto text = Render(*block, *variables.Entries(), [](const std::string&) { return std::string("30 Nov 2026"); });
    if (!text.ok()) std::fprintf(stderr, "%s\n", std::string(text.status().message()).c_str());
    std::printf("%s\n", text.ok() ? nlohmann::json(*text).dump().c_str() : "null");
  }
}
