// Any bytes as the body of a request to `hone serve`: refused as the request's fault, or a call within its limits. Any text as
// an answer: what is sent is JSON, one event a piece.

#include <cmath>
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <string>

#include "rollout/serve/openai_api.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace hone::rollout;
  const std::string text(reinterpret_cast<const char*>(data), size);
  for (const bool chat : {false, true}) {
    const auto call = ParseCompletionCall(text, chat);
    if (!call.ok()) {
      if (call.status().code() != absl::StatusCode::kInvalidArgument || !nlohmann::json::accept(ErrorBody(call.status()))) std::abort();
      continue;
    }
    if (call->samples < 1 || !(call->sampling.temperature >= 0) || call->sampling.max_tokens < 0) std::abort();
    if (chat ? call->messages.empty() : false) std::abort();
  }
  const AnswerHead head = {.chat = true, .id = "a", .model = text.substr(0, 10)};
  const AnswerChoice choice = {.text = text, .tokens = {{text, 1, -INFINITY}}, .finish = FinishReason::kStop, .with_log_probs = true};
  if (!nlohmann::json::accept(WholeAnswer(head, {choice}, {}))) std::abort();
  const std::string event = ChunkEvent(head, choice, /*first=*/true);
  if (event.rfind("data: ", 0) != 0 || event.find("\n\n") != event.size() - 2) std::abort();
  if (!nlohmann::json::accept(event.substr(6, event.size() - 8))) std::abort();
  return 0;
}
