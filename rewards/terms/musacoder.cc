#include "rewards/terms/musacoder.h"

#include <algorithm>
#include <cmath>

#include "absl/strings/str_cat.h"

namespace hone::rewards {

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
  return 1 + lambda * std::min(std::max(speed.Read(outcome) - 1, 0.0), nu_max);
}

}  // namespace hone::rewards
