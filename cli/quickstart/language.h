#pragma once

// How the quickstart's small policy reads and writes: texts of the generator's language and a few special tokens.
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
#include "policy/tokenizer/tokenizer.h"
#include "rollout/episode/driver.h"

namespace hone::cli {

class QuickstartLanguage : public rollout::TurnEncoder {
 public:
  /// Trains the tokenizer on the generator's demonstrations. kInvalidArgument: `vocabulary` too small.
  static absl::StatusOr<std::unique_ptr<QuickstartLanguage>> Train(int64_t vocabulary, uint64_t seed);

  const policy::Tokenizer& tokenizer() const { return *tokenizer_; }
  int32_t end_id() const { return end_id_; }

  absl::StatusOr<std::vector<int32_t>> Answer(const std::string& source) const;  // with <|end|>
  absl::StatusOr<std::vector<int32_t>> TaskPrompt(const std::string& prompt) const;
  absl::StatusOr<std::vector<int32_t>> RepairPrompt(const std::string& prompt, const std::string& failing,
                                                    VerdictStatus status) const;
  absl::StatusOr<std::vector<int32_t>> ContrastPrompt(const std::string& prompt, const std::string& slower,
                                                      const std::string& faster) const;

  absl::StatusOr<std::vector<int32_t>> EncodeFeedback(const Turn& answered) override;
  std::string TextOf(absl::Span<const int32_t> ids) override;
  /// An answer is the source and nothing else.
  std::optional<std::string> CandidateOf(const std::string& response) override { return response; }

 private:
  explicit QuickstartLanguage(std::unique_ptr<policy::Tokenizer> tokenizer);
  int32_t StatusId(VerdictStatus status) const;

  std::unique_ptr<policy::Tokenizer> tokenizer_;
  int32_t end_id_ = 0;
};

}  // namespace hone::cli
