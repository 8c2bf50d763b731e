#include "cli/train/program_language.h"

#include <iterator>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "policy/tokenizer/train_bpe.h"
#include "rollout/sampler/generator.h"

namespace hone::cli {
namespace {

constexpr char kEnd[] = "<|end|>";
constexpr char kCompile[] = "<|compile|>";
constexpr char kCrash[] = "<|crash|>";
constexpr char kWrong[] = "<|wrong|>";
constexpr char kSlower[] = "<|slower|>";
constexpr char kFaster[] = "<|faster|>";
constexpr char kAgain[] = "<|again|>";
constexpr const char* kSpecialTokens[] = {kEnd, kCompile, kCrash, kWrong, kSlower, kFaster, kAgain};
constexpr int kCorpusExamples = 4000;

void Append(std::vector<int32_t>& ids, const std::vector<int32_t>& more) { ids.insert(ids.end(), more.begin(), more.end()); }

}  // namespace

absl::StatusOr<std::unique_ptr<ProgramLanguage>> ProgramLanguage::Train(int64_t vocabulary, uint64_t seed) {
  policy::TrainBpeOptions options;
  options.special_tokens.assign(std::begin(kSpecialTokens), std::end(kSpecialTokens));
  options.pattern = rollout::kTokenPattern;
  options.all_bytes = false;
  HONE_ASSIGN_OR_RETURN(auto tokenizer, policy::TrainBpe(rollout::Corpus(kCorpusExamples, seed), static_cast<int32_t>(vocabulary), options));
  return std::unique_ptr<ProgramLanguage>(new ProgramLanguage(std::move(tokenizer)));
}

absl::StatusOr<std::unique_ptr<ProgramLanguage>> ProgramLanguage::Load(const std::string& folder) {
  HONE_ASSIGN_OR_RETURN(auto tokenizer, policy::Tokenizer::Load(folder));
  for (const char* token : kSpecialTokens) {
    if (tokenizer->IdOf(token)) continue;
    return absl::InvalidArgumentError(absl::StrCat(folder, ": the tokenizer has no ", token,
                                                   ": not a policy of hone quickstart; set policy.prompts to chat"));
  }
  return std::unique_ptr<ProgramLanguage>(new ProgramLanguage(std::move(tokenizer)));
}

ProgramLanguage::ProgramLanguage(std::unique_ptr<policy::Tokenizer> tokenizer)
    : tokenizer_(std::move(tokenizer)), end_id_(*tokenizer_->IdOf(kEnd)) {}

absl::StatusOr<std::vector<int32_t>> ProgramLanguage::TaskPrompt(const std::string& prompt) const {
  return tokenizer_->Encode(prompt, {.parse_special = false});
}

absl::StatusOr<std::vector<int32_t>> ProgramLanguage::Answer(const std::string& source) const {
  HONE_ASSIGN_OR_RETURN(std::vector<int32_t> ids, tokenizer_->Encode(source, {.parse_special = false}));
  ids.push_back(end_id_);
  return ids;
}

absl::StatusOr<std::vector<int32_t>> ProgramLanguage::RepairPrompt(const std::string& prompt, const std::string& failing,
                                                                      VerdictStatus status) const {
  HONE_ASSIGN_OR_RETURN(std::vector<int32_t> ids, TaskPrompt(prompt));
  HONE_ASSIGN_OR_RETURN(const std::vector<int32_t> answer, Answer(failing));
  Append(ids, answer);
  ids.push_back(StatusId(status));
  return ids;
}

absl::StatusOr<std::vector<int32_t>> ProgramLanguage::ContrastPrompt(const std::string& prompt, const std::string& slower,
                                                                        const std::string& faster) const {
  HONE_ASSIGN_OR_RETURN(std::vector<int32_t> ids, TaskPrompt(prompt));
  HONE_ASSIGN_OR_RETURN(const std::vector<int32_t> slow, tokenizer_->Encode(slower, {.parse_special = false}));
  HONE_ASSIGN_OR_RETURN(const std::vector<int32_t> fast, tokenizer_->Encode(faster, {.parse_special = false}));
  ids.push_back(*tokenizer_->IdOf(kSlower));
  Append(ids, slow);
  ids.push_back(*tokenizer_->IdOf(kFaster));
  Append(ids, fast);
  ids.push_back(*tokenizer_->IdOf(kAgain));
  return ids;
}

absl::StatusOr<std::vector<int32_t>> ProgramLanguage::EncodeFeedback(const Turn& answered) {
  std::vector<int32_t> ids;
  if (answered.response_ids.empty() || answered.response_ids.back() != end_id_) ids.push_back(end_id_);
  ids.push_back(StatusId(answered.verdict.status));
  return ids;
}

std::string ProgramLanguage::TextOf(absl::Span<const int32_t> ids) { return tokenizer_->Decode(ids, /*skip_special=*/true); }

int32_t ProgramLanguage::StatusId(VerdictStatus status) const {
  switch (status) {
    case VerdictStatus::kParse:
    case VerdictStatus::kForbidden:
    case VerdictStatus::kCompile:
    case VerdictStatus::kCompileTimeout:
      return *tokenizer_->IdOf(kCompile);
    case VerdictStatus::kRuntime:
    case VerdictStatus::kTimeout:
    case VerdictStatus::kOom:
      return *tokenizer_->IdOf(kCrash);
    default:
      return *tokenizer_->IdOf(kWrong);
  }
}

}  // namespace hone::cli
