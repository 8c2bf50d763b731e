#include "cli/train/chat_language.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "rollout/prompt/markdown.h"

namespace hone::cli {
namespace {

// Stand for contents while the template's own text is found out: words that no template writes, trims or changes.
constexpr char kTask[] = "HoneTaskText", kAnswer[] = "HoneAnswerText", kFeedback[] = "HoneFeedbackText";

void Append(std::vector<int32_t>& ids, const std::vector<int32_t>& more) { ids.insert(ids.end(), more.begin(), more.end()); }

std::string Marker(Format format) { return format == Format::kNative ? "launch" : "ModelNew"; }

}  // namespace

absl::StatusOr<std::unique_ptr<ChatLanguage>> ChatLanguage::Load(const std::string& folder,
                                                                 const rollout::PromptOptions& options,
                                                                 const ChatSettings& settings) {
  HONE_ASSIGN_OR_RETURN(auto tokenizer, policy::Tokenizer::Load(folder));
  absl::StatusOr<std::unique_ptr<policy::ChatTemplate>> chat = policy::ChatTemplate::Load(folder);
  if (absl::IsNotFound(chat.status())) chat = policy::ChatTemplate::ChatMl();
  HONE_RETURN_IF_ERROR(chat.status());
  if (tokenizer->special_ids().eos.empty()) {
    return absl::InvalidArgumentError(
        absl::StrCat(folder, ": neither tokenizer_config.json nor generation_config.json names a token that ends an answer"));
  }
  std::unique_ptr<ChatLanguage> language(new ChatLanguage(std::move(tokenizer), *std::move(chat), options));
  const absl::Status framed = language->RenderFrames(settings);
  if (!framed.ok()) return absl::Status(framed.code(), absl::StrCat(folder, ": ", framed.message()));
  return language;
}

absl::StatusOr<std::vector<int32_t>> ChatLanguage::OpeningAfter(std::vector<policy::ChatMessage> messages,
                                                                const policy::ChatOptions& options) const {
  messages.push_back({"user", kTask, {}});
  HONE_ASSIGN_OR_RETURN(const std::string text, chat_->Render(messages, options));
  const size_t task = text.find(kTask);
  if (task == std::string::npos) return absl::InvalidArgumentError("the chat template does not write out what a turn says");
  return tokenizer_->Encode(text.substr(0, task));
}

const std::vector<int32_t>& ChatLanguage::OpeningFor(const Task& task) const {
  return example_openings_.empty() ? opening_ : example_openings_.at(rollout::ShapeOf(task));
}

absl::Status ChatLanguage::RenderFrames(const ChatSettings& settings) {
  policy::ChatOptions options;
  options.variables_json["enable_thinking"] = settings.thinking ? "true" : "false";
  for (const rollout::LaunchShape shape : rollout::kLaunchShapes) {
    if (!settings.example || options_.format != Format::kNative) break;
    const rollout::WorkedExample example = rollout::ExampleOf(shape);
    HONE_ASSIGN_OR_RETURN(example_openings_[shape],
                          OpeningAfter({{"user", rollout::TaskPrompt(example.task, example.skeleton, options_), {}},
                                        {"assistant", rollout::CodeBlock("cuda", example.source), {}}},
                                       options));
  }
  HONE_ASSIGN_OR_RETURN(const std::string first, chat_->Render({{policy::ChatMessage{"user", kTask, {}}}}, options));
  HONE_ASSIGN_OR_RETURN(const std::string both,
                        chat_->Render({{policy::ChatMessage{"user", kTask, {}}, policy::ChatMessage{"assistant", kAnswer, {}},
                                        policy::ChatMessage{"user", kFeedback, {}}}},
                                      options));
  const size_t task = first.find(kTask), answer = both.find(kAnswer), feedback = both.find(kFeedback);
  if (task == std::string::npos || answer == std::string::npos || feedback == std::string::npos || feedback < answer) {
    return absl::InvalidArgumentError("the chat template does not write out user, assistant and user in turn");
  }
  const size_t answer_end = answer + sizeof(kAnswer) - 1;
  HONE_ASSIGN_OR_RETURN(opening_, tokenizer_->Encode(first.substr(0, task)));
  HONE_ASSIGN_OR_RETURN(to_assistant_, tokenizer_->Encode(first.substr(task + sizeof(kTask) - 1)));
  HONE_ASSIGN_OR_RETURN(to_user_, tokenizer_->Encode(both.substr(answer_end, feedback - answer_end)));
  return absl::OkStatus();
}

absl::StatusOr<std::vector<int32_t>> ChatLanguage::Encode(const std::vector<int32_t>& before, const std::string& content,
                                                          const std::vector<int32_t>& after) const {
  HONE_ASSIGN_OR_RETURN(const std::vector<int32_t> middle, tokenizer_->Encode(content, {.parse_special = false}));
  std::vector<int32_t> ids = before;
  Append(ids, middle);
  Append(ids, after);
  return ids;
}

absl::StatusOr<std::vector<int32_t>> ChatLanguage::TaskPrompt(const Problem& problem) {
  return Encode(OpeningFor(problem.task), rollout::TaskPrompt(problem.task, problem.text, options_), to_assistant_);
}

absl::StatusOr<std::vector<int32_t>> ChatLanguage::RepairPrompt(const Problem& problem, const std::string& source,
                                                                const Verdict& verdict) {
  return Encode(OpeningFor(problem.task), rollout::RepairPrompt(problem.task, problem.text, source, verdict, options_), to_assistant_);
}

absl::StatusOr<std::vector<int32_t>> ChatLanguage::ContrastPrompt(const Problem& problem, const rollout::Exemplar& slower,
                                                                  const rollout::Exemplar& faster) {
  const std::pair<rollout::PriorCode, rollout::PriorCode> prior = {{slower.source, slower.speedup},
                                                                   {faster.source, faster.speedup}};
  return Encode(opening_, rollout::ContrastivePrompt(problem.task, problem.text, prior, options_), to_assistant_);
}

absl::StatusOr<std::vector<int32_t>> ChatLanguage::EncodeFeedback(const Turn& answered) {
  // The end of the turn is sampled where the answer was not cut: it is not written twice.
  std::vector<int32_t> before = to_user_;
  if (!answered.response_ids.empty() && !before.empty() && answered.response_ids.back() == before.front()) {
    before.erase(before.begin());
  }
  return Encode(before, rollout::FeedbackTurn(answered.verdict, options_), to_assistant_);
}

std::string ChatLanguage::TextOf(absl::Span<const int32_t> ids) { return tokenizer_->Decode(ids, /*skip_special=*/true); }

std::optional<std::string> ChatLanguage::CandidateOf(const std::string& response) {
  return rollout::CodeOf(response, Marker(options_.format));
}

}  // namespace hone::cli
