#include "rollout/serve/openai_api.h"

#include <catch2/catch_test_macros.hpp>
#include <nlohmann/json.hpp>

#include "rollout/engine/stop_strings.h"

namespace hone::rollout {
namespace {

using Json = nlohmann::json;

std::string Refusal(const std::string& body, bool chat = false) {
  const auto call = ParseCompletionCall(body, chat);
  return call.ok() ? "accepted" : std::string(call.status().message());
}

TEST_CASE("A completion call is read field by field", "[rollout][serve]") {
  const auto call = ParseCompletionCall(R"({"model": "m", "prompt": [5, 6], "max_tokens": 7, "temperature": 0.5, "top_p": 0.9, "top_k": -1,
    "min_p": 0.1, "n": 3, "stop": ["a", "b"], "seed": 18446744073709551615, "logprobs": 0, "stream": true, "user": "x",
    "stream_options": {"include_usage": true}, "stop_token_ids": [9], "ignore_eos": true, "return_token_ids": true, "best_of": 3, "echo": null})",
                                        false);
  REQUIRE(call.ok());
  CHECK(call->model == "m");
  CHECK((call->prompt_ids == std::vector<int32_t>{5, 6}));
  CHECK(call->sampling.max_tokens == 7);
  CHECK(call->sampling.temperature == 0.5);
  CHECK(call->sampling.top_p == 0.9);
  CHECK(call->sampling.top_k == 0);
  CHECK(call->sampling.min_p == 0.1);
  CHECK((call->sampling.stop_ids == std::vector<int32_t>{9}));
  CHECK(call->samples == 3);
  CHECK((call->stop == std::vector<std::string>{"a", "b"}));
  CHECK(call->seed == 18446744073709551615u);
  CHECK(call->log_probs);
  CHECK(call->stream);
  CHECK(call->stream_usage);
  CHECK(call->ignore_eos);
  CHECK(call->token_ids);
}

TEST_CASE("A chat call keeps messages, their further fields and the template's variables", "[rollout][serve]") {
  const auto call = ParseCompletionCall(R"({"messages": [{"role": "system", "content": "s"},
    {"role": "user", "content": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}], "name": "n"}],
    "logprobs": true, "max_completion_tokens": 4, "chat_template_kwargs": {"enable_thinking": false}})",
                                        true);
  REQUIRE(call.ok());
  REQUIRE(call->messages.size() == 2);
  CHECK(call->messages[0].content == "s");
  CHECK(call->messages[1].content == "ab");
  CHECK(call->messages[1].extra_json.at("name") == "\"n\"");
  CHECK(call->template_variables_json.at("enable_thinking") == "false");
  CHECK(call->log_probs);
  CHECK(call->sampling.max_tokens == 4);
}

TEST_CASE("What would change the answer and cannot be done is refused by name", "[rollout][serve]") {
  CHECK(Refusal("[]") == "the body is not a JSON object");
  CHECK(Refusal("{") == "the body is not a JSON object");
  CHECK(Refusal("{}") == "prompt is missing or empty");
  CHECK(Refusal("{}", true) == "messages is missing");
  CHECK(Refusal(R"({"prompt": "x", "temperature": "hot"})") == "temperature = \"hot\", allowed a number");
  CHECK(Refusal(R"({"prompt": "x", "temperature": -1})") == "sampling: temperature = -1, allowed [0, 100]");
  CHECK(Refusal(R"({"prompt": "x", "max_tokens": 0})") == "max_tokens = 0, allowed [1, 2147483647]");
  CHECK(Refusal(R"({"prompt": "x", "max_tokens": 18446744073709551615})") == "max_tokens = 18446744073709551615, allowed [1, 2147483647]");
  CHECK(Refusal(R"({"prompt": "x", "n": 1.5})") == "n = 1.5, allowed an integer");
  CHECK(Refusal(R"({"prompt": "x", "n": 2, "best_of": 3})") == "best_of = 3, allowed [2, 2]");
  CHECK(Refusal(R"({"prompt": ["a", "b"]})") == "prompt = [\"a\",\"b\"], allowed one text or one list of token ids");
  CHECK(Refusal(R"({"prompt": [1, -2]})") == "prompt = [1,-2], allowed a list of token ids");
  CHECK(Refusal(R"({"prompt": "x", "logprobs": 5})") == "logprobs = 5, allowed [0, 1]");
  CHECK(Refusal(R"({"prompt": "x", "presence_penalty": 0.5})") == "presence_penalty = 0.5, allowed 0.0 only: it is not supported here");
  CHECK(Refusal(R"({"prompt": "x", "presence_penalty": 0})") == "accepted");
  CHECK(Refusal(R"({"prompt": "x", "stop": ""})") == "stop = \"\", allowed a text or a list of texts, none empty");
  CHECK(Refusal(R"({"prompt": "x", "grammar": "root ::= .*"})") == "grammar is not a field that this server knows");
  CHECK(Refusal(R"({"messages": [{"content": "x"}]})", true) == "messages[0] = {\"content\":\"x\"}, allowed an object with a role");
  CHECK(Refusal(R"({"messages": [{"role": "user", "content": [{"type": "image_url"}]}]})", true) ==
        "messages[0].content = {\"type\":\"image_url\"}, allowed {\"type\": \"text\", \"text\": \"...\"}");
}

AnswerChoice Choice() {
  AnswerChoice choice;
  choice.index = 1;
  choice.text = "hi\xff";
  choice.tokens = {{"h", 3, -0.5f}, {"i", 4, -0.25f}};
  choice.finish = FinishReason::kLength;
  choice.with_log_probs = true;
  choice.with_token_ids = true;
  choice.versions = {{0, 2, 7}};
  return choice;
}

TEST_CASE("Answers carry text, log-probs, ids and versions where the API's clients look for them", "[rollout][serve]") {
  const Json whole = Json::parse(WholeAnswer({false, "cmpl-1", "m", 5}, {Choice()}, {10, 2}));
  CHECK(whole["object"] == "text_completion");
  CHECK(whole["usage"]["total_tokens"] == 12);
  const Json& choice = whole["choices"][0];
  CHECK(choice["index"] == 1);
  CHECK(choice["text"] == "hi\xEF\xBF\xBD");
  CHECK(choice["finish_reason"] == "length");
  CHECK(choice["logprobs"]["token_logprobs"] == Json({-0.5, -0.25}));
  CHECK(choice["logprobs"]["text_offset"] == Json({0, 1}));
  CHECK(choice["token_ids"] == Json({3, 4}));
  CHECK(choice["policy_versions"] == Json::array({{0, 2, 7}}));

  const std::string event = ChunkEvent({true, "chatcmpl-1", "m", 5}, Choice(), true);
  REQUIRE(event.substr(0, 6) == "data: ");
  REQUIRE(event.substr(event.size() - 2) == "\n\n");
  const Json chunk = Json::parse(event.substr(6));
  CHECK(chunk["object"] == "chat.completion.chunk");
  CHECK(chunk["choices"][0]["delta"]["role"] == "assistant");
  CHECK(chunk["choices"][0]["logprobs"]["content"][1]["logprob"] == -0.25);
  CHECK(chunk["choices"][0]["logprobs"]["content"][0]["bytes"] == Json({104}));
}

TEST_CASE("Statuses become the HTTP codes that clients retry on, or not", "[rollout][serve]") {
  CHECK(HttpCode(absl::InvalidArgumentError("x")) == 400);
  CHECK(HttpCode(absl::NotFoundError("x")) == 404);
  CHECK(HttpCode(absl::UnavailableError("x")) == 503);
  CHECK(HttpCode(absl::InternalError("x")) == 500);
  CHECK(Json::parse(ErrorBody(absl::InvalidArgumentError("n = 0")))["error"]["message"] == "n = 0");
}

TEST_CASE("A stop string ends the text before it, wherever its pieces were cut", "[rollout][serve]") {
  const std::string text = "int main() { return 0; }\n``` and more";
  for (size_t a = 0; a <= text.size(); ++a) {
    for (size_t b = a; b <= text.size(); ++b) {
      StopStrings stops({"```", "``x", ""});
      std::string got = stops.Push(text.substr(0, a));
      got += stops.Push(text.substr(a, b - a));
      got += stops.Push(text.substr(b));
      got += stops.Finish();
      REQUIRE(got == "int main() { return 0; }\n");
      REQUIRE(stops.found());
    }
  }
  StopStrings never({"xyz"});
  std::string got;
  for (const char c : std::string("abxyabcxy")) got += never.Push(std::string(1, c));
  CHECK(got == "abxyabc");
  CHECK(got + never.Finish() == "abxyabcxy");
  CHECK_FALSE(never.found());
  // The one that is whole first wins over a longer one.
  StopStrings both({"abcd", "bc"});
  CHECK(both.Push("xabcd") == "x");
}

}  // namespace
}  // namespace hone::rollout
