#include "rewards/terms/correct.h"

#include "absl/strings/str_cat.h"

namespace hone::rewards {

void CorrectnessScore::Describe(Fields& fields) {
  fields.Value("pass", pass, Range(-100.0, 100.0), "score of a pass");
  fields.Value("fail", fail, Range(-100.0, 100.0), "score of a failure");
}

std::string CorrectnessScore::Formula() const { return absl::StrCat(pass, " for a pass, ", fail, " for a failure"); }

std::optional<double> CorrectnessScore::ScoreJudged(const Outcome& outcome) const {
  return outcome.passed() ? pass : fail;
}

}  // namespace hone::rewards
