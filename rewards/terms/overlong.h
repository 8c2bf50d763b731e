#pragma once

#include <optional>
#include <string>

#include "rewards/terms/term.h"

namespace hone::rewards {

/// Soft overlong penalty: 0 up to max_tokens - cache_tokens response tokens, falling linearly to -1 at max_tokens, -1
/// beyond it and for a response cut by the length limit. Judged for every outcome, passed or not. 0 where the number of
/// tokens is not known and the response was not cut.
/// Source: DAPO, arXiv:2503.14476, eq. 13; 20480 and 4096 are theirs.
class OverlongPenalty final : public Term {
 public:
  static constexpr const char* kName = "overlong";
  static constexpr const char* kSummary = "0 for a response of fair length, falling to -1 at max_tokens";
  static constexpr const char* kSource = "DAPO, arXiv:2503.14476, eq. 13";
  int64_t max_tokens = 20480;
  int64_t cache_tokens = 4096;
  void Describe(Fields& fields) override;
  absl::Status Validate() const override;
  std::string Formula() const override;

 private:
  std::optional<double> ScoreJudged(const Outcome& outcome) const override;
};

/// No sample for a response that the length limit cut, 0 for any other: what a cut answer would have been is not known, and
/// to learn from it as from a failure unlearns whatever takes long to write.
/// Source: DAPO, arXiv:2503.14476, section 3.4, overlong filtering.
class OverlongFilter final : public Term {
 public:
  static constexpr const char* kName = "overlong_filter";
  static constexpr const char* kSummary = "No sample for a response cut by the length limit, 0 for any other";
  static constexpr const char* kSource = "DAPO, arXiv:2503.14476, section 3.4";
  void Describe(Fields&) override {}
  std::string Formula() const override { return "0; no sample when cut by the limit"; }

 private:
  std::optional<double> ScoreJudged(const Outcome& outcome) const override;
};

}  // namespace hone::rewards
