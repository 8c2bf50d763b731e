#include "rewards/terms/overlong.h"

#include <algorithm>

#include "absl/strings/str_cat.h"

namespace hone::rewards {

void OverlongPenalty::Describe(Fields& fields) {
  fields.Value("max_tokens", max_tokens, Range<int64_t>(1, 1 << 30), "response tokens at which the penalty is full");
  fields.Value("cache_tokens", cache_tokens, Range<int64_t>(1, 1 << 30), "length of the slope before it");
}

absl::Status OverlongPenalty::Validate() const {
  if (cache_tokens <= max_tokens) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("overlong: cache_tokens ", cache_tokens, " is above max_tokens ", max_tokens));
}

std::string OverlongPenalty::Formula() const {
  return absl::StrCat("0 up to ", max_tokens - cache_tokens, " response tokens, falling to -1 at ", max_tokens,
                      "; -1 when cut by the limit");
}

std::optional<double> OverlongPenalty::ScoreJudged(const Outcome& outcome) const {
  if (outcome.truncated) return -1;
  const double over = static_cast<double>(outcome.response_tokens - (max_tokens - cache_tokens));
  return -std::clamp(over / static_cast<double>(cache_tokens), 0.0, 1.0);
}

std::optional<double> OverlongFilter::ScoreJudged(const Outcome& outcome) const {
  return outcome.truncated ? std::optional<double>() : 0.0;
}

}  // namespace hone::rewards
