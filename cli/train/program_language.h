#pragma once

// How the small policies read and write that a quickstart trained: texts of the generator's language and a few special
// tokens.
//
//   task                 prompt                                  then the answer, <|end|>
//   feedback, repair     prompt, failing answer, <|end|>, <|wrong|>  then the answer, <|end|>
//   contrast             prompt, <|slower|>, source, <|faster|>, source, <|again|>  then the answer, <|end|>
//
// A repair prompt of the retry buffer and the second turn of an episode are the same tokens, so that what is learned from
// one serves the other.

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "base/verdict.h"
#include "cli/train/prompter.h"
#include "policy/tokenizer/tokenizer.h"

namespace hone::cli {

class ProgramLanguage : public Prompter {
 public:
  /// Trains the tokenizer on the generator's demonstrations. kInvalidArgument: `vocabulary` too small.
  static absl::StatusOr<std::unique_ptr<ProgramLanguage>> Train(int64_t vocabulary, uint64_t seed);
  /// The one that Train made and its run saved. kInvalidArgument: a tokenizer without the special tokens.
  static absl::StatusOr<std::unique_ptr<ProgramLanguage>> Load(const std::string& folder);

  const policy::Tokenizer& tokenizer() const { return *tokenizer_; }
  int32_t end_id() const { return end_id_; }

  absl::StatusOr<std::vector<int32_t>> Answer(const std::string& source) const;  // with <|end|>
  absl::StatusOr<std::vector<int32_t>> TaskPrompt(const std::string& prompt) const;
  absl::StatusOr<std::vector<int32_t>> RepairPrompt(const std::string& prompt, const std::string& failing,
                                                    VerdictStatus status) const;
  absl::StatusOr<std::vector<int32_t>> ContrastPrompt(const std::string& prompt, const std::string& slower,
                                                      const std::string& faster) const;

  absl::StatusOr<std::vector<int32_t>> TaskPrompt(const Problem& problem) override { return TaskPrompt(problem.text); }
  absl::StatusOr<std::vector<int32_t>> RepairPrompt(const Problem& problem, const std::string& source,
                                                    const Verdict& verdict) override {
    return RepairPrompt(problem.text, source, verdict.status);
  }
  absl::StatusOr<std::vector<int32_t>> ContrastPrompt(const Problem& problem, const rollout::Exemplar& slower,
                                                      const rollout::Exemplar& faster) override {
    return ContrastPrompt(problem.text, slower.source, faster.source);
  }
  std::vector<int32_t> stop_ids() const override { return {end_id_}; }

  absl::StatusOr<std::vector<int32_t>> EncodeFeedback(const Turn& answered) override;
  std::string TextOf(absl::Span<const int32_t> ids) override;
  /// An answer is the source and nothing else.
  std::optional<std::string> CandidateOf(const std::string& response) override { return response; }

 private:
  explicit ProgramLanguage(std::unique_ptr<policy::Tokenizer> tokenizer);
  int32_t StatusId(VerdictStatus status) const;

  std::unique_ptr<policy::Tokenizer> tokenizer_;
  int32_t end_id_ = 0;
};

}  // namespace hone::cli
