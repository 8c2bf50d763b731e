#pragma once

// Prompts for chat models out of HF folders: the texts of rollout/prompt inside the model's own chat template.
//
// What others wrote (task, candidates, compiler output) is encoded as plain text: a special token spelled out in it cannot
// end a turn. Template and content are therefore encoded apart.
//
// Before the task stands a turn that answers a worked example of the task's launch shape (rollout/prompt/worked_examples.h).

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "cli/train/prompter.h"
#include "policy/chat/chat_template.h"
#include "policy/tokenizer/tokenizer.h"
#include "rollout/prompt/layouts.h"
#include "rollout/prompt/worked_examples.h"

namespace hone::cli {

struct ChatSettings {
  bool thinking = false;  // handed to templates that know it
  bool example = true;    // show a worked example
};

class ChatLanguage : public Prompter {
 public:
  /// tokenizer.json and chat template of an HF folder; ChatML where it has none. kInvalidArgument: no id that ends a turn is known, or the template does not write out what a turn says.
  static absl::StatusOr<std::unique_ptr<ChatLanguage>> Load(const std::string& folder, const rollout::PromptOptions& options,
                                                            const ChatSettings& settings);

  absl::StatusOr<std::vector<int32_t>> TaskPrompt(const Problem& problem) override;
  absl::StatusOr<std::vector<int32_t>> RepairPrompt(const Problem& problem, const std::string& source,
                                                    const Verdict& verdict) override;
  absl::StatusOr<std::vector<int32_t>> ContrastPrompt(const Problem& problem, const rollout::Exemplar& slower,
                                                      const rollout::Exemplar& faster) override;
  std::vector<int32_t> stop_ids() const override { return tokenizer_->special_ids().eos; }

  absl::StatusOr<std::vector<int32_t>> EncodeFeedback(const Turn& answered) override;
  std::string TextOf(absl::Span<const int32_t> ids) override;
  std::optional<std::string> CandidateOf(const std::string& response) override;

  const policy::Tokenizer& tokenizer() const { return *tokenizer_; }

 private:
  ChatLanguage(std::unique_ptr<policy::Tokenizer> tokenizer, std::unique_ptr<policy::ChatTemplate> chat,
               const rollout::PromptOptions& options)
      : tokenizer_(std::move(tokenizer)), chat_(std::move(chat)), options_(options) {}
  absl::Status RenderFrames(const ChatSettings& settings);
  /// The template's text up to a task that follows `messages`, as tokens.
  absl::StatusOr<std::vector<int32_t>> OpeningAfter(std::vector<policy::ChatMessage> messages,
                                                    const policy::ChatOptions& options) const;
  const std::vector<int32_t>& OpeningFor(const Task& task) const;
  absl::StatusOr<std::vector<int32_t>> Encode(const std::vector<int32_t>& before, const std::string& content,
                                              const std::vector<int32_t>& after) const;

  std::unique_ptr<policy::Tokenizer> tokenizer_;
  std::unique_ptr<policy::ChatTemplate> chat_;
  rollout::PromptOptions options_;
  // What the template writes around contents.
  std::vector<int32_t> opening_;       // before the first user's text
  std::map<rollout::LaunchShape, std::vector<int32_t>> example_openings_;  // the same after an example; empty: none is shown
  std::vector<int32_t> to_assistant_;  // from the end of a user's text to the start of the answer
  std::vector<int32_t> to_user_;       // from the end of an answer to the next user's text, end of turn included
};

}  // namespace hone::cli
