#include "policy/chat/chat_template.h"

#include <ctime>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/file.h"
#include "base/json_fields.h"
#include "base/status_macros.h"
#include "policy/chat/evaluate.h"
#include "policy/chat/syntax.h"
#include "policy/chat/value.h"

namespace hone::policy {
namespace {

using Json = nlohmann::ordered_json;

constexpr int64_t kTemplateLimitBytes = 8 << 20;

constexpr char kChatMl[] =
    "{% for message in messages %}{{ '<|im_start|>' + message.role + '\\n' + message.content + '<|im_end|>\\n' }}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}";

absl::StatusOr<chat::Value> ParseValue(absl::string_view what, const std::string& text) {
  const Json json = Json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (json.is_discarded()) return absl::InvalidArgumentError(absl::StrCat(what, " is not JSON"));
  return chat::FromJson(json);
}

absl::StatusOr<chat::Value> MessageValue(const ChatMessage& message) {
  chat::Dict fields = {{"role", message.role}, {"content", message.content}};
  for (const auto& [name, json] : message.extra_json) {
    HONE_ASSIGN_OR_RETURN(chat::Value value, ParseValue(absl::StrCat("message field '", name, "'"), json));
    chat::Assign(fields, name, std::move(value));
  }
  return chat::MakeDict(std::move(fields));
}

std::string LocalTime(const std::string& format) {
  const std::time_t now = std::time(nullptr);
  std::tm local{};
  localtime_r(&now, &local);
  char text[256];
  return std::string(text, std::strftime(text, sizeof text, format.c_str(), &local));
}

std::string TokenText(const Json& config, const char* key) {
  const auto at = config.find(key);
  if (at == config.end()) return "";
  if (at->is_string()) return at->get<std::string>();
  return at->is_object() ? TextOr(*at, "content") : "";
}

std::string TemplateOf(const Json& config) {
  const auto at = config.find("chat_template");
  if (at == config.end()) return "";
  if (at->is_string()) return at->get<std::string>();
  for (const Json& named : at->is_array() ? *at : Json::array()) {
    if (named.is_object() && TextOr(named, "name") == "default") return TextOr(named, "template");
  }
  return "";
}

}  // namespace

struct ChatTemplate::State {
  std::string name;
  std::string source;
  chat::Block block;
  std::string bos_token, eos_token;
};

ChatTemplate::ChatTemplate(std::unique_ptr<State> state) : state_(std::move(state)) {}
ChatTemplate::~ChatTemplate() = default;

const std::string& ChatTemplate::source() const { return state_->source; }

absl::StatusOr<std::unique_ptr<ChatTemplate>> ChatTemplate::Parse(std::string source, const std::string& name) {
  if (static_cast<int64_t>(source.size()) > kTemplateLimitBytes) {
    return absl::InvalidArgumentError(absl::StrCat(name, ": ", source.size(), " bytes; a template has at most ", kTemplateLimitBytes));
  }
  absl::StatusOr<chat::Block> block = chat::ParseTemplate(source);
  if (!block.ok()) return absl::InvalidArgumentError(absl::StrCat(name, ": ", block.status().message()));
  auto state = std::make_unique<State>();
  state->name = name;
  state->source = std::move(source);
  state->block = *std::move(block);
  return std::unique_ptr<ChatTemplate>(new ChatTemplate(std::move(state)));
}

absl::StatusOr<std::unique_ptr<ChatTemplate>> ChatTemplate::Load(const std::string& folder) {
  const std::string config_path = absl::StrCat(folder, "/tokenizer_config.json");
  Json config = Json::object();
  if (FileExists(config_path)) {
    HONE_ASSIGN_OR_RETURN(const std::string text, ReadFile(config_path));
    config = Json::parse(text, nullptr, /*allow_exceptions=*/false);
    if (!config.is_object()) return absl::InvalidArgumentError(absl::StrCat(config_path, ": is not a JSON object"));
  }
  std::string path = absl::StrCat(folder, "/chat_template.jinja"), source;
  if (FileExists(path)) {
    HONE_ASSIGN_OR_RETURN(source, ReadFile(path, kTemplateLimitBytes));
  } else {
    path = config_path;
    source = TemplateOf(config);
  }
  if (source.empty()) return absl::NotFoundError(absl::StrCat(folder, " has no chat template"));
  HONE_ASSIGN_OR_RETURN(auto made, Parse(std::move(source), path));
  made->state_->bos_token = TokenText(config, "bos_token");
  made->state_->eos_token = TokenText(config, "eos_token");
  return made;
}

std::unique_ptr<ChatTemplate> ChatTemplate::ChatMl() {
  absl::StatusOr<std::unique_ptr<ChatTemplate>> made = Parse(kChatMl, "ChatML");
  HONE_CHECK(made.ok());
  return *std::move(made);
}

absl::StatusOr<std::string> ChatTemplate::Render(absl::Span<const ChatMessage> messages, const ChatOptions& options) const {
  chat::List list;
  for (const ChatMessage& message : messages) {
    HONE_ASSIGN_OR_RETURN(list.emplace_back(), MessageValue(message));
  }
  chat::Dict variables = {{"messages", chat::MakeList(std::move(list))},
                          {"add_generation_prompt", options.add_generation_prompt},
                          {"tools", chat::None{}},
                          {"documents", chat::None{}}};
  const auto define_token = [&](const char* name, const std::string& given, const std::string& own) {
    if (const std::string& token = given.empty() ? own : given; !token.empty()) chat::Assign(variables, name, token);
  };
  define_token("bos_token", options.bos_token, state_->bos_token);
  define_token("eos_token", options.eos_token, state_->eos_token);
  if (!options.tools_json.empty()) {
    HONE_ASSIGN_OR_RETURN(chat::Value tools, ParseValue("the list of tools", options.tools_json));
    chat::Assign(variables, "tools", std::move(tools));
  }
  for (const auto& [name, json] : options.variables_json) {
    HONE_ASSIGN_OR_RETURN(chat::Value value, ParseValue(absl::StrCat("variable '", name, "'"), json));
    chat::Assign(variables, name, std::move(value));
  }
  const auto text = chat::Render(state_->block, variables, options.strftime_now ? options.strftime_now : LocalTime);
  if (text.ok()) return text;
  return absl::Status(text.status().code(), absl::StrCat(state_->name, ": ", text.status().message()));
}

}  // namespace hone::policy
