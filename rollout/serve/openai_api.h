#pragma once

// The OpenAI completions API as JSON, both ways: what `hone serve` understands and answers. No HTTP, no torch.
//
// Understood: model, prompt (text, a list of texts' ids), messages, max_tokens, max_completion_tokens, temperature, top_p,
// n, stream, stream_options.include_usage, stop, seed, logprobs, top_logprobs = 0, and vLLM's top_k, min_p, stop_token_ids,
// ignore_eos, return_token_ids, chat_template_kwargs. What would change the answer and is not understood is refused by
// name; what cannot (user, metadata, store) is ignored.

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "policy/chat/chat_template.h"
#include "rollout/engine/engine.h"

namespace hone::rollout {

struct CompletionCall {
  bool chat = false;
  std::string model;                            // empty: the one served
  std::string prompt;                           // of /v1/completions, unless prompt_ids has it
  std::vector<int32_t> prompt_ids;
  std::vector<policy::ChatMessage> messages;    // of /v1/chat/completions
  std::map<std::string, std::string> template_variables_json;
  SamplingOptions sampling;                     // stop_ids: only what the call names; max_tokens 0: not given
  std::vector<std::string> stop;
  std::optional<uint64_t> seed;
  int64_t samples = 1;
  bool ignore_eos = false;
  bool log_probs = false;
  bool token_ids = false;
  bool stream = false;
  bool stream_usage = false;
};

/// kInvalidArgument names the field, its value and what is allowed.
absl::StatusOr<CompletionCall> ParseCompletionCall(absl::string_view json, bool chat);

/// What names an answer; the same in all its chunks.
struct AnswerHead {
  bool chat = false;
  std::string id;
  std::string model;
  int64_t created_s = 0;  // Unix time
};

/// A token as log-probs list it.
struct AnswerToken {
  std::string text;
  int32_t id = 0;
  float log_prob = 0;
};

/// One of n, whole or a piece of it.
struct AnswerChoice {
  size_t index = 0;
  std::string text;
  std::vector<AnswerToken> tokens;
  std::optional<FinishReason> finish;
  bool with_log_probs = false;
  bool with_token_ids = false;
  std::vector<VersionSpan> versions;  // "policy_versions" of a whole choice: which weights wrote which tokens
};

struct Usage {
  int64_t prompt_tokens = 0;
  int64_t completion_tokens = 0;
};

std::string WholeAnswer(const AnswerHead& head, absl::Span<const AnswerChoice> choices, const Usage& usage);
/// One server-sent event, "data: {...}\n\n". `first`: a chat's first chunk of a choice names the role.
std::string ChunkEvent(const AnswerHead& head, const AnswerChoice& piece, bool first);
std::string UsageEvent(const AnswerHead& head, const Usage& usage);
std::string ErrorBody(const absl::Status& status);
/// 400, 404, 429, 500 or 503.
int HttpCode(const absl::Status& status);

}  // namespace hone::rollout
