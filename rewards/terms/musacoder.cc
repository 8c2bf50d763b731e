#include "rewards/terms/musacoder.h"

#include <algorithm>
#include <cmath>

#include "absl/strings/str_cat.h"

namespace hone::rewards {
namespace {

constexpr char kFailureFormula[] = "-1 for a failure, -0.5 + 0.5 q where a share q of the checks was right";

}  // namespace

double FailureScore(const Outcome& outcome) {
  if (outcome.status != VerdictStatus::kIncorrect || outcome.correct_rate <= 0) return -1;
  return -0.5 + 0.5 * outcome.correct_rate;
}

void MusaCoderScore::Describe(Fields& fields) {
  fields.Value("lambda", lambda, Range(0.0, 100.0), "weight of the speed term");
  fields.Value("nu_max", nu_max, Range(0.0, 1e6), "cap on the excess speedup nu - 1");
  speed.Describe(fields);
}

std::string MusaCoderScore::Formula() const {
  return absl::StrCat(kFailureFormula, ", 1 + ", lambda, " * min(max(nu - 1, 0), ", nu_max,
                      ") for a pass; nu = ", speed.InWords());
}

std::optional<double> MusaCoderScore::ScoreJudged(const Outcome& outcome) const {
  if (!outcome.passed()) return FailureScore(outcome);
  const std::optional<double> nu = speed.Read(outcome);
  if (!nu) return std::nullopt;
  return 1 + lambda * std::min(std::max(*nu - 1, 0.0), nu_max);
}

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
  const std::optional<double> nu = speed.Read(outcome);
  if (!nu) return std::nullopt;
  return 1 + slope * std::clamp(std::log2(*nu), low, high);
}

}  // namespace hone::rewards
