#include "rewards/terms/coverage.h"

namespace hone::rewards {

std::string CoverageScore::Formula() const { return "the custom kernels' share of device time for a pass, else 0"; }

std::optional<double> CoverageScore::ScoreJudged(const Outcome& outcome) const {
  return outcome.passed() ? outcome.coverage.value_or(0) : 0;
}

}  // namespace hone::rewards
