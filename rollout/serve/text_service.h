#pragma once

// Texts out of a Scheduler for any number of threads: one thread steps it, the others submit and wait for pieces of text.
// No torch, no HTTP.

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "policy/tokenizer/tokenizer.h"
#include "rollout/engine/engine.h"
#include "rollout/engine/scheduler.h"

namespace hone::rollout {

struct TextRequest {
  GenerationRequest generation;
  std::vector<std::string> stop;  // texts that end a sample; not part of its text
  bool skip_special = true;       // special tokens give no text
};

/// A token of one sample, or its end.
struct TextEvent {
  size_t sample = 0;
  std::string text;           // certain now: whole characters, nothing that may become a stop string
  bool has_token = false;     // false: only the rest of the text at the end
  int32_t id = 0;
  float log_prob = 0;
  std::string token_text;     // of this token alone
  std::optional<FinishReason> finish;
  std::vector<VersionSpan> versions;  // with finish
};

/// Thread-safe.
class TextService {
 public:
  struct Options {
    int64_t max_waiting = 4096;  // samples that are not decoded yet; more are refused
  };
  /// What the scheduler does not check of a request; may be null.
  using Check = std::function<absl::Status(const GenerationRequest& request)>;

  /// All are borrowed; nobody else uses the scheduler while this lives.
  TextService(const Options& options, Scheduler& scheduler, const policy::Tokenizer& tokenizer, Check check);
  /// As Stop. Streams must be gone.
  ~TextService();

  /// One request's events in order. Belongs to one thread. Dropping it aborts what has not ended.
  class Stream {
   public:
    ~Stream();
    /// Waits for the next event; nothing once every sample has ended. The engine's status when it failed.
    absl::StatusOr<std::optional<TextEvent>> Next();

   private:
    friend class TextService;
    struct Queue;
    Stream(TextService& service, std::shared_ptr<Queue> queue);
    TextService& service_;
    std::shared_ptr<Queue> queue_;
  };

  /// Errors of Scheduler::Submit and of the check. kUnavailable: too many samples wait.
  absl::StatusOr<std::unique_ptr<Stream>> Submit(TextRequest request);

  /// Ends every open request as kAborted and refuses new ones. Streams stay readable.
  void Stop();

  SchedulerStats stats() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace hone::rollout
