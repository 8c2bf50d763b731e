#pragma once

// Turns a conversation into the prompt text that a model was trained on, by the template that comes with it.
//
// Templates are Jinja programs; syntax.h says which part of Jinja is understood. What they write is what HF transformers'
// apply_chat_template(tokenize=False) writes. Encode it without add_special: templates write special tokens themselves.

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"

namespace hone::policy {

struct ChatMessage {
  std::string role;     // "system", "user", "assistant", "tool"
  std::string content;
  /// Further fields as JSON values ("reasoning_content": "\"..\"", "tool_calls": "[..]").
  std::map<std::string, std::string> extra_json;
};

struct ChatOptions {
  bool add_generation_prompt = true;  // ends with the start of the assistant's turn
  std::string bos_token, eos_token;   // what the template writes for them
  std::string tools_json;             // a JSON list of tool descriptions; empty: none
  /// Other variables as JSON values ("enable_thinking": "false").
  std::map<std::string, std::string> variables_json;
  /// Answers the template's strftime_now(format); empty: the local time of now.
  std::function<std::string(const std::string& format)> strftime_now;
};

/// Immutable and thread-safe.
class ChatTemplate {
 public:
  /// kInvalidArgument with `name` and the line: not valid, or uses what is not supported.
  static absl::StatusOr<std::unique_ptr<ChatTemplate>> Parse(std::string source, const std::string& name);
  /// chat_template.jinja of an HF folder, else "chat_template" of its tokenizer_config.json (the one named "default", where
  /// there are several), with bos and eos as tokenizer_config.json names them. kNotFound: the folder has none.
  static absl::StatusOr<std::unique_ptr<ChatTemplate>> Load(const std::string& folder);
  /// ChatML with <|im_start|> and <|im_end|>, for models that come without a template.
  static std::unique_ptr<ChatTemplate> ChatMl();
  ~ChatTemplate();
  ChatTemplate(const ChatTemplate&) = delete;
  ChatTemplate& operator=(const ChatTemplate&) = delete;

  /// kInvalidArgument: the template refuses this conversation (its message), or a field that is not JSON.
  absl::StatusOr<std::string> Render(absl::Span<const ChatMessage> messages, const ChatOptions& options = {}) const;

  const std::string& source() const;

 private:
  struct State;
  explicit ChatTemplate(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace hone::policy
