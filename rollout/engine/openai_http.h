#pragma once

// Samples from any server that speaks the OpenAI completions API over HTTP: `hone serve`, vLLM, SGLang, llama.cpp.
//
// An episode needs exact token ids and their log-probs, which the API itself does not have. Taken, in this order: vLLM's
// and hone's "token_ids" (asked for by return_token_ids), vLLM's tokens spelled "token_id:17", llama.cpp's
// logprobs.content[].id. A server that returns none of them is refused, and so is one that returns fewer log-probs than
// ids, a log-prob above zero, or an end without the token that ended it.
//
// Servers report log-probs of one of two distributions, and only their owner knows which (vLLM: --logprobs-mode): the one
// really sampled, or the plain softmax. With the plain one, temperature must be 1 and filters off (or temperature 0).

#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "rollout/engine/engine.h"

namespace hone::rollout {

enum class ServerLogProbs { kSampled, kPlain };

struct OpenAiEngineOptions {
  std::string url = "http://127.0.0.1:8000/v1";
  std::string model;                             // empty: the first that the server lists
  std::string api_key;                           // sent as a bearer token unless empty
  ServerLogProbs log_probs = ServerLogProbs::kPlain;
  int64_t max_requests = 64;      // at the same time
  int64_t retries = 5;            // of a request after a lost connection, 408, 429 or 5xx
  int64_t retry_wait_ms = 250;    // before the first, doubled for each further one
  int64_t idle_timeout_s = 300;   // without a byte from the server
};

/// Generate is not thread-safe. Callbacks run on the thread that calls Generate. A request that is retried begins again
/// with the samples that had not ended.
class OpenAiEngine : public Engine {
 public:
  /// Asks the server for its models. kInvalidArgument: a URL that is not http[s]://host[:port][/path]. kUnavailable: no
  /// answer. kNotFound: the server lists no such model.
  static absl::StatusOr<std::unique_ptr<OpenAiEngine>> Create(const OpenAiEngineOptions& options);
  ~OpenAiEngine() override;

  /// Beside Engine's errors, kFailedPrecondition: the server does not return what an episode needs (says what);
  /// kUnavailable: retries are used up.
  absl::StatusOr<std::vector<std::vector<Sample>>> Generate(absl::Span<const GenerationRequest> requests,
                                                            const GenerateOptions& options) override;
  /// The server's weights are somebody else's to update; tokens carry the version set when their request was sent, or the
  /// server's own where it names one (hone does).
  absl::Status SetPolicyVersion(int64_t version) override;
  int64_t policy_version() const override;

  const std::string& model() const;

 private:
  struct State;
  explicit OpenAiEngine(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace hone::rollout
