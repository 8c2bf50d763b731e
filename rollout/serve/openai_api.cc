#include "rollout/serve/openai_api.h"

#include <set>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/json_fields.h"
#include "base/status_macros.h"
#include "base/strings.h"
#include "nlohmann/json.hpp"

namespace hone::rollout {
namespace {

using Json = nlohmann::json;

absl::Status Bad(absl::string_view field, const Json& value, absl::string_view allowed) {
  std::string text = value.dump(-1, ' ', false, Json::error_handler_t::replace);
  if (text.size() > 60) text = text.substr(0, 57) + "...";
  return absl::InvalidArgumentError(absl::StrCat(field, " = ", text, ", allowed ", allowed));
}

absl::Status ReadNumber(const Json& value, absl::string_view field, double& to) {
  if (!value.is_number()) return Bad(field, value, "a number");
  to = value.get<double>();
  return absl::OkStatus();
}
absl::Status ReadInt(const Json& value, absl::string_view field, int64_t least, int64_t most, int64_t& to) {
  if (!value.is_number_integer()) return Bad(field, value, "an integer");
  // Unsigned values above int64's range become negative here and are out of range.
  to = value.is_number_unsigned() && value.get<uint64_t>() > INT64_MAX ? -1 : value.get<int64_t>();
  if (to < least || to > most) return Bad(field, value, absl::StrCat("[", least, ", ", most, "]"));
  return absl::OkStatus();
}
absl::Status ReadBool(const Json& value, absl::string_view field, bool& to) {
  if (!value.is_boolean()) return Bad(field, value, "true or false");
  to = value.get<bool>();
  return absl::OkStatus();
}
absl::Status ReadIds(const Json& value, absl::string_view field, std::vector<int32_t>& to) {
  const absl::Status bad = Bad(field, value, "a list of token ids");
  if (!value.is_array()) return bad;
  for (const Json& id : value) {
    if (!id.is_number_integer() || id.get<int64_t>() < 0 || id.get<int64_t>() > INT32_MAX) return bad;
    to.push_back(id.get<int32_t>());
  }
  return absl::OkStatus();
}

absl::Status ReadPrompt(const Json& value, CompletionCall& call) {
  if (value.is_string()) {
    call.prompt = value.get<std::string>();
    return absl::OkStatus();
  }
  const bool list = value.is_array() && !value.empty();
  if (list && value[0].is_number_integer()) return ReadIds(value, "prompt", call.prompt_ids);
  if (list && value.size() == 1) return ReadPrompt(value[0], call);
  return Bad("prompt", value, "one text or one list of token ids");
}

// The text of a message: a string, or parts of type "text".
absl::Status ReadContent(const Json& content, const std::string& field, std::string& to) {
  if (content.is_null()) return absl::OkStatus();
  if (content.is_string()) {
    to = content.get<std::string>();
    return absl::OkStatus();
  }
  if (!content.is_array()) return Bad(field, content, "a text or a list of text parts");
  for (const Json& part : content) {
    if (!part.is_object() || TextOr(part, "type") != "text" || !part.contains("text") || !part["text"].is_string()) {
      return Bad(field, part, "{\"type\": \"text\", \"text\": \"...\"}");
    }
    to += part["text"].get<std::string>();
  }
  return absl::OkStatus();
}

absl::Status ReadMessages(const Json& value, CompletionCall& call) {
  if (!value.is_array() || value.empty()) return Bad("messages", value, "a list of at least one message");
  for (size_t i = 0; i < value.size(); ++i) {
    const Json& message = value[i];
    const std::string field = absl::StrCat("messages[", i, "]");
    if (!message.is_object() || !message.contains("role") || !message["role"].is_string()) return Bad(field, message, "an object with a role");
    policy::ChatMessage read;
    for (const auto& [key, part] : message.items()) {
      if (key == "role") {
        read.role = part.get<std::string>();
      } else if (key == "content") {
        HONE_RETURN_IF_ERROR(ReadContent(part, field + ".content", read.content));
      } else if (!part.is_null()) {
        read.extra_json[key] = part.dump(-1, ' ', false, Json::error_handler_t::replace);
      }
    }
    call.messages.push_back(std::move(read));
  }
  return absl::OkStatus();
}

absl::Status ReadStop(const Json& value, CompletionCall& call) {
  const std::vector<Json> stops = value.is_array() ? value.get<std::vector<Json>>() : std::vector<Json>{value};
  for (const Json& stop : stops) {
    if (!stop.is_string() || stop.get<std::string>().empty()) return Bad("stop", value, "a text or a list of texts, none empty");
    call.stop.push_back(stop.get<std::string>());
  }
  return absl::OkStatus();
}

// Completions: a count of alternatives; chat: a switch. Alternatives are not returned.
absl::Status ReadLogProbs(const Json& value, CompletionCall& call) {
  if (value.is_boolean() && call.chat) {
    call.log_probs = value.get<bool>();
    return absl::OkStatus();
  }
  if (call.chat) return Bad("logprobs", value, "true or false");
  int64_t alternatives = 0;
  HONE_RETURN_IF_ERROR(ReadInt(value, "logprobs", 0, 1, alternatives));
  call.log_probs = true;
  return absl::OkStatus();
}

// A field at the one value that changes nothing.
absl::Status OnlyNeutral(const std::string& key, const Json& value, const Json& neutral) {
  if (value == neutral) return absl::OkStatus();
  return Bad(key, value, absl::StrCat(neutral.dump(), " only: it is not supported here"));
}

absl::Status ReadField(const std::string& key, const Json& value, CompletionCall& call) {
  static const std::set<std::string> ignored{"user", "metadata", "store", "service_tier", "echo_id", "priority", "request_id", "safety_identifier", "prompt_cache_key"};
  SamplingOptions& s = call.sampling;
  if (value.is_null() || ignored.count(key) != 0) return absl::OkStatus();
  if (key == "prompt" && !call.chat) return ReadPrompt(value, call);
  if (key == "messages" && call.chat) return ReadMessages(value, call);
  if (key == "temperature") return ReadNumber(value, key, s.temperature);
  if (key == "top_p") return ReadNumber(value, key, s.top_p);
  if (key == "min_p") return ReadNumber(value, key, s.min_p);
  if (key == "top_k") {
    HONE_RETURN_IF_ERROR(ReadInt(value, key, -1, INT32_MAX, s.top_k));
    s.top_k = std::max<int64_t>(s.top_k, 0);  // -1 is vLLM's "off"
    return absl::OkStatus();
  }
  if (key == "max_tokens" || (key == "max_completion_tokens" && call.chat)) return ReadInt(value, key, 1, INT32_MAX, s.max_tokens);
  if (key == "n") return ReadInt(value, key, 1, 1024, call.samples);
  if (key == "best_of") return ReadInt(value, key, call.samples, call.samples, call.samples);
  if (key == "stop") return ReadStop(value, call);
  if (key == "stop_token_ids") return ReadIds(value, key, s.stop_ids);
  if (key == "ignore_eos") return ReadBool(value, key, call.ignore_eos);
  if (key == "return_token_ids") return ReadBool(value, key, call.token_ids);
  if (key == "logprobs") return ReadLogProbs(value, call);
  if (key == "top_logprobs") return OnlyNeutral(key, value, 0);
  if (key == "stream") return ReadBool(value, key, call.stream);
  if (key == "seed") {
    if (!value.is_number_integer()) return Bad(key, value, "an integer");
    call.seed = value.is_number_unsigned() ? value.get<uint64_t>() : static_cast<uint64_t>(value.get<int64_t>());
    return absl::OkStatus();
  }
  if (key == "model") {
    if (!value.is_string()) return Bad(key, value, "a text");
    call.model = value.get<std::string>();
    return absl::OkStatus();
  }
  if (key == "stream_options") {
    if (!value.is_object()) return Bad(key, value, "an object");
    return value.contains("include_usage") ? ReadBool(value["include_usage"], "stream_options.include_usage", call.stream_usage) : absl::OkStatus();
  }
  if (key == "chat_template_kwargs" && call.chat) {
    if (!value.is_object()) return Bad(key, value, "an object");
    for (const auto& [name, variable] : value.items()) call.template_variables_json[name] = variable.dump();
    return absl::OkStatus();
  }
  if (key == "presence_penalty" || key == "frequency_penalty") return OnlyNeutral(key, value, 0.0);
  if (key == "repetition_penalty") return OnlyNeutral(key, value, 1.0);
  if (key == "echo") return OnlyNeutral(key, value, false);
  if (key == "suffix") return OnlyNeutral(key, value, "");
  if (key == "logit_bias") return OnlyNeutral(key, value, Json::object());
  if (key == "response_format") return OnlyNeutral(key, value, Json{{"type", "text"}});
  if (key == "tools") return OnlyNeutral(key, value, Json::array());
  if (key == "tool_choice") return OnlyNeutral(key, value, "none");
  return absl::InvalidArgumentError(absl::StrCat(key, " is not a field that this server knows"));
}

Json LogProbsJson(const AnswerHead& head, const AnswerChoice& choice) {
  if (!choice.with_log_probs) return nullptr;
  if (head.chat) {
    Json content = Json::array();
    for (const AnswerToken& token : choice.tokens) {
      Json bytes = Json::array();
      for (const unsigned char byte : token.text) bytes.push_back(byte);
      content.push_back({{"token", token.text}, {"logprob", token.log_prob}, {"bytes", bytes}, {"top_logprobs", Json::array()}, {"id", token.id}});
    }
    return {{"content", content}};
  }
  Json tokens = Json::array(), values = Json::array(), offsets = Json::array();
  size_t offset = 0;
  for (const AnswerToken& token : choice.tokens) {
    tokens.push_back(token.text);
    values.push_back(token.log_prob);
    offsets.push_back(offset);
    offset += token.text.size();
  }
  return {{"tokens", tokens}, {"token_logprobs", values}, {"top_logprobs", nullptr}, {"text_offset", offsets}};
}

Json ChoiceJson(const AnswerHead& head, const AnswerChoice& choice) {
  Json json{{"index", choice.index}, {"logprobs", LogProbsJson(head, choice)}, {"finish_reason", nullptr}};
  if (choice.finish) json["finish_reason"] = *choice.finish == FinishReason::kStop ? "stop" : *choice.finish == FinishReason::kLength ? "length" : "abort";
  if (choice.with_token_ids) {
    Json ids = Json::array();
    for (const AnswerToken& token : choice.tokens) ids.push_back(token.id);
    json["token_ids"] = ids;
  }
  if (!choice.versions.empty()) {
    Json spans = Json::array();
    for (const VersionSpan& span : choice.versions) spans.push_back({span.begin, span.end, span.policy_version});
    json["policy_versions"] = spans;
  }
  return json;
}

Json HeadJson(const AnswerHead& head, bool chunk) {
  const char* object = head.chat ? (chunk ? "chat.completion.chunk" : "chat.completion") : "text_completion";
  return {{"id", head.id}, {"object", object}, {"created", head.created_s}, {"model", head.model}};
}

Json UsageJson(const Usage& usage) {
  return {{"prompt_tokens", usage.prompt_tokens}, {"completion_tokens", usage.completion_tokens}, {"total_tokens", usage.prompt_tokens + usage.completion_tokens}};
}

std::string Text(const Json& json) { return json.dump(-1, ' ', false, Json::error_handler_t::replace); }

}  // namespace

absl::StatusOr<CompletionCall> ParseCompletionCall(absl::string_view text, bool chat) {
  const Json json = Json::parse(text.begin(), text.end(), nullptr, /*allow_exceptions=*/false);
  if (!json.is_object()) return absl::InvalidArgumentError("the body is not a JSON object");
  CompletionCall call;
  call.chat = chat;
  call.sampling.max_tokens = 0;
  if (json.contains("n")) HONE_RETURN_IF_ERROR(ReadField("n", json["n"], call));  // best_of is compared with it
  for (const auto& [key, value] : json.items()) HONE_RETURN_IF_ERROR(ReadField(key, value, call));
  if (chat && call.messages.empty()) return absl::InvalidArgumentError("messages is missing");
  if (!chat && call.prompt.empty() && call.prompt_ids.empty()) return absl::InvalidArgumentError("prompt is missing or empty");
  SamplingOptions checked = call.sampling;
  checked.max_tokens = std::max<int64_t>(1, checked.max_tokens);
  HONE_RETURN_IF_ERROR(Validate(checked));
  return call;
}

std::string WholeAnswer(const AnswerHead& head, absl::Span<const AnswerChoice> choices, const Usage& usage) {
  Json json = HeadJson(head, false);
  json["choices"] = Json::array();
  for (const AnswerChoice& choice : choices) {
    Json one = ChoiceJson(head, choice);
    if (head.chat) {
      one["message"] = {{"role", "assistant"}, {"content", choice.text}};
    } else {
      one["text"] = choice.text;
    }
    json["choices"].push_back(std::move(one));
  }
  json["usage"] = UsageJson(usage);
  return Text(json);
}

std::string ChunkEvent(const AnswerHead& head, const AnswerChoice& piece, bool first) {
  Json json = HeadJson(head, true);
  Json one = ChoiceJson(head, piece);
  if (head.chat) {
    one["delta"] = Json::object();
    if (first) one["delta"]["role"] = "assistant";
    if (first || !piece.text.empty()) one["delta"]["content"] = piece.text;
  } else {
    one["text"] = piece.text;
  }
  json["choices"] = Json::array({std::move(one)});
  return absl::StrCat("data: ", Text(json), "\n\n");
}

std::string UsageEvent(const AnswerHead& head, const Usage& usage) {
  Json json = HeadJson(head, true);
  json["choices"] = Json::array();
  json["usage"] = UsageJson(usage);
  return absl::StrCat("data: ", Text(json), "\n\n");
}

int HttpCode(const absl::Status& status) {
  switch (status.code()) {
    case absl::StatusCode::kOk: return 200;
    case absl::StatusCode::kInvalidArgument:
    case absl::StatusCode::kResourceExhausted: return 400;  // one that can never be served
    case absl::StatusCode::kNotFound: return 404;
    case absl::StatusCode::kUnavailable: return 503;
    default: return 500;
  }
}

std::string ErrorBody(const absl::Status& status) {
  const int code = HttpCode(status);
  return Text(Json{{"error", {{"message", std::string(status.message())}, {"type", code < 500 ? "invalid_request_error" : "server_error"}, {"code", code}}}});
}

}  // namespace hone::rollout
