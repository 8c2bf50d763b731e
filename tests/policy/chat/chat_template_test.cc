#include "policy/chat/chat_template.h"

#include <catch2/catch_test_macros.hpp>
#include <nlohmann/json.hpp>

#include "base/file.h"
#include "policy/chat/evaluate.h"
#include "policy/weights/gguf.h"
#include "tests/policy/models.h"

namespace hone::policy {
namespace {

const std::string kTemplates = HONE_TEST_DATA "/templates/";

std::string Rendered(const std::string& source, std::vector<ChatMessage> messages = {}, const ChatOptions& options = {}) {
  const auto made = ChatTemplate::Parse(source, "t");
  if (!made.ok()) return std::string(made.status().message());
  const auto text = (*made)->Render(messages, options);
  return text.ok() ? *text : std::string(text.status().message());
}

TEST_CASE("Templates of each family write what HF transformers writes", "[policy][chat]") {
  const auto saved = nlohmann::ordered_json::parse(*ReadFile(kTemplates + "expected.json"));
  REQUIRE(saved["expected"].size() == 4);
  for (const auto& [name, expected] : saved["expected"].items()) {
    const auto block = chat::ParseTemplate(*ReadFile(kTemplates + name + ".jinja"));
    REQUIRE(block.ok());
    for (size_t i = 0; i < expected.size(); ++i) {
      INFO(name << ", conversation " << i);
      const chat::Value variables = chat::FromJson(saved["inputs"][i]);
      const auto text = chat::Render(*block, *variables.Entries(), [](const std::string&) { return "30 Nov 2026"; });
      REQUIRE(text.ok() == !expected[i].is_null());
      if (text.ok()) CHECK(*text == expected[i].get<std::string>());
    }
  }
}

TEST_CASE("Messages, tools and variables reach the template", "[policy][chat]") {
  ChatMessage call{"assistant", "", {{"tool_calls", R"([{"function": {"name": "f", "arguments": {"x": 1}}}])"}}};
  ChatOptions options;
  options.tools_json = R"([{"name": "f"}])";
  options.variables_json = {{"enable_thinking", "false"}};
  options.bos_token = "<s>";
  CHECK(Rendered("{{ bos_token }}{{ messages[0].role }} {{ messages[0].tool_calls[0].function.arguments | tojson }} "
                 "{{ tools[0].name }} {{ enable_thinking }} {{ add_generation_prompt }}",
                 {call}, options) == "<s>assistant {\"x\": 1} f False True");
}

TEST_CASE("ChatML is there for models without a template", "[policy][chat]") {
  const auto text = ChatTemplate::ChatMl()->Render({{ChatMessage{"user", "hi", {}}}});
  REQUIRE(text.ok());
  CHECK(*text == "<|im_start|>user\nhi<|im_end|>\n<|im_start|>assistant\n");
}

TEST_CASE("A folder's template comes from its own file, else from tokenizer_config.json", "[policy][chat]") {
  const auto folder = TempFolder::Create("hone_chat");
  REQUIRE(folder.ok());
  CHECK(ChatTemplate::Load(folder->path()).status().code() == absl::StatusCode::kNotFound);
  REQUIRE(WriteFileAtomically(folder->path() + "/tokenizer_config.json",
                              R"({"bos_token": {"content": "<s>"}, "chat_template": [{"name": "tool_use", "template": "no"},
                                  {"name": "default", "template": "{{ bos_token }}config"}]})")
              .ok());
  const auto from_config = ChatTemplate::Load(folder->path());
  REQUIRE(from_config.ok());
  CHECK(*(*from_config)->Render({}) == "<s>config");
  REQUIRE(WriteFileAtomically(folder->path() + "/chat_template.jinja", "{{ bos_token }}file").ok());
  const auto from_file = ChatTemplate::Load(folder->path());
  REQUIRE(from_file.ok());
  CHECK(*(*from_file)->Render({}) == "<s>file");
}

TEST_CASE("What is wrong with a template is said with its line", "[policy][chat]") {
  CHECK(Rendered("a\n{% if x %}") == "t: line 2: 'endif' is missing");
  CHECK(Rendered("{{ 'a") == "t: line 1: a string is not closed");
  CHECK(Rendered("\n\n{{ x | frobnicate }}") == "t: line 3: filter 'frobnicate' is not supported");
  CHECK(Rendered("{{ x is frobnicated }}") == "t: line 1: test 'frobnicated' is not supported");
  CHECK(Rendered("{% include 'x' %}") == "t: line 1: statement 'include' is not supported or out of place");
  CHECK(Rendered("{{ a.b }}") == "t: line 1: 'a' is undefined");
  CHECK(Rendered("{{ 'x' + 1 }}") == "t: line 1: '+' between a str and a int");
  CHECK(Rendered("{{ frobnicate() }}") == "t: line 1: function 'frobnicate' is not supported");
  CHECK(Rendered("{{ raise_exception('Roles must alternate') }}") == "t: Roles must alternate");
  CHECK(Rendered("{{ 1 // 0 }}") == "t: line 1: division by zero");
}

TEST_CASE("A template cannot run for ever, fill the memory or overflow the stack", "[policy][chat]") {
  CHECK(Rendered("{% for a in range(99999) %}{% for b in range(99999) %}{{ b }}{% endfor %}{% endfor %}").find("runs too long") !=
        std::string::npos);
  CHECK(Rendered("{{ range(1000000000) }}").find("longer than") != std::string::npos);
  CHECK(Rendered("{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}").find("nested too deep") != std::string::npos);
  CHECK(Rendered("{% set n = namespace() %}{% set n.me = [n] %}{{ n }}").find("nested too deep") != std::string::npos);
  CHECK(Rendered("{% set n = namespace(a=1) %}{% for i in range(1000) %}{% set n.a = [n.a] %}{% endfor %}").find("too deep") !=
        std::string::npos);
  CHECK(Rendered("{{ " + std::string(100000, '(') + "1" + std::string(100000, ')') + " }}").find("too deep") != std::string::npos);
  std::string chain = "{{ 1", attributes = "{{ a", filters = "{{ a", minus = "{{ ";
  for (int i = 0; i < 100000; ++i) {
    chain += "+1";
    attributes += ".a";
    filters += "|trim";
    minus += "-";
  }
  CHECK(Rendered(chain + " }}").find("too long a chain") != std::string::npos);
  CHECK(Rendered(attributes + " }}").find("too long a chain") != std::string::npos);
  CHECK(Rendered(filters + " }}").find("too long a chain") != std::string::npos);
  CHECK(Rendered(minus + "1 }}").find("too deep") != std::string::npos);
  std::string ifs;
  for (int i = 0; i < 100000; ++i) ifs += "{% if 1 %}";
  CHECK(Rendered(ifs).find("too deep") != std::string::npos);
  CHECK(Rendered("{% set s = 'xxxxxxxxxx' %}{% for i in range(100) %}{% set s = s + s %}{{ s }}{% endfor %}") .size() < 3000);
  CHECK(Rendered("{% set n = namespace(s='xxxxxxxxxx') %}{% for i in range(100) %}{% set n.s = n.s ~ n.s %}{% endfor %}")
            .find("too") != std::string::npos);
}

TEST_CASE("The real template of Qwen2.5 Coder, from its GGUF file", "[policy][chat][models]") {
  const auto path = FindModel("qwen2.5-coder-1.5b-instruct-q4_k_m.gguf");
  if (!path) SKIP(MissingModel("qwen2.5-coder-1.5b-instruct-q4_k_m.gguf"));
  const auto gguf = Gguf::Open(*path);
  REQUIRE(gguf.ok());
  CHECK(Rendered(*(*gguf)->Text("tokenizer.chat_template"), {{"system", "Be brief.", {}}, {"user", "hi", {}}}) ==
        "<|im_start|>system\nBe brief.<|im_end|>\n<|im_start|>user\nhi<|im_end|>\n<|im_start|>assistant\n");
}

}  // namespace
}  // namespace hone::policy
