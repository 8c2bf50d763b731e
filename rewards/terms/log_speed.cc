#include "rewards/terms/log_speed.h"

#include <algorithm>
#include <cmath>

#include "absl/strings/str_cat.h"
#include "rewards/terms/musacoder.h"

namespace hone::rewards {

void LogSpeedScore::Describe(Fields& fields) {
  fields.Value("slope", slope, Range(0.0, 100.0), "reward of each doubling");
  fields.Value("low", low, Range(-64.0, 64.0), "floor of log2 nu");
  fields.Value("high", high, Range(-64.0, 64.0), "cap of log2 nu");
  speed.Describe(fields);
}

absl::Status LogSpeedScore::Validate() const {
  if (low <= high) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("log_speed: low ", low, " is above high ", high));
}

std::string LogSpeedScore::Formula() const {
  return absl::StrCat(kFailureFormula, ", 1 + ", slope, " * clip(log2 nu, ", low, ", ", high,
                      ") for a pass; nu = ", speed.InWords());
}

std::optional<double> LogSpeedScore::ScoreJudged(const Outcome& outcome) const {
  if (!outcome.passed()) return FailureScore(outcome);
  return 1 + slope * std::clamp(std::log2(speed.Read(outcome)), low, high);
}

}  // namespace hone::rewards
