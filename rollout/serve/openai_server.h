#pragma once

// `hone serve`: OpenAI-compatible HTTP over a TextService.
//
//   POST /v1/completions, POST /v1/chat/completions   whole answers, or server-sent events with "stream": true
//   GET  /v1/models                                   the one model
//   GET  /health                                      what runs and waits
//
// A client that goes away ends its request. Errors are JSON, {"error": {"message", "type", "code"}}.

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "policy/chat/chat_template.h"
#include "policy/tokenizer/tokenizer.h"
#include "rollout/serve/text_service.h"

namespace hone::rollout {

struct OpenAiServerOptions {
  std::string host = "127.0.0.1";
  int port = 8000;                  // 0: any free one
  int threads = 256;                // requests served at the same time; each waits in a thread of its own
  std::string model_name = "hone";
  int64_t context = 0;              // tokens of prompt and answer together
  std::vector<int32_t> end_ids;     // end an answer unless ignore_eos
};

/// Borrows all it is given.
class OpenAiServer {
 public:
  /// Listens. kFailedPrecondition: the address is taken or is not this machine's (named).
  static absl::StatusOr<std::unique_ptr<OpenAiServer>> Start(const OpenAiServerOptions& options, TextService& service,
                                                             const policy::Tokenizer& tokenizer, const policy::ChatTemplate& chat);
  /// Stops accepting and waits for the handlers; the service should have been told to end its requests or they run out.
  ~OpenAiServer();
  int port() const;

 private:
  struct State;
  explicit OpenAiServer(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace hone::rollout
