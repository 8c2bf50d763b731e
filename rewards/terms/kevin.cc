#include "rewards/terms/kevin.h"

#include "absl/strings/str_cat.h"

namespace hone::rewards {

void KevinScore::Describe(Fields& fields) {
  fields.Value("correct_weight", correct_weight, Range(0.0, 100.0), "for passing");
  speed.Describe(fields);
}

std::string KevinScore::Formula() const {
  return absl::StrCat("0 for a failure, ", correct_weight, " + nu for a pass; nu = ", speed.InWords());
}

std::optional<double> KevinScore::ScoreJudged(const Outcome& outcome) const {
  return outcome.passed() ? correct_weight + speed.Read(outcome) : 0;
}

}  // namespace hone::rewards
