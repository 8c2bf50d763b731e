#include "rewards/advantage/reinforce.h"

#include <vector>

#include "absl/strings/str_cat.h"
#include "rewards/advantage/group.h"

namespace hone::rewards {

void ReinforcePlusPlus::Describe(Fields& fields) {
  fields.Value("baseline", baseline, OneOf{{"batch", "group"}}, "whose mean is subtracted");
  fields.Value("epsilon", epsilon, Range(1e-12, 10.0), "added to the batch's standard deviation");
}

std::string ReinforcePlusPlus::Formula() const {
  return absl::StrCat("A = (R - ", baseline, " mean) / (batch std + ", epsilon, ")");
}

void ReinforcePlusPlus::Compute(absl::Span<const Sample> samples, absl::Span<double> advantages) const {
  std::vector<Sample> centred(samples.begin(), samples.end());
  if (baseline == "group") {
    DrGrpo().Compute(samples, advantages);
    for (size_t i = 0; i < centred.size(); ++i) centred[i].reward = advantages[i];
  }
  const RewardStats stats = StatsOf(centred);
  // Centred groups have mean zero already; subtracting its rounding error would move exact zeros.
  const double mean = baseline == "group" ? 0 : stats.mean;
  for (size_t i = 0; i < centred.size(); ++i) {
    advantages[i] = stats.equal() ? 0 : (centred[i].reward - mean) / (stats.std + epsilon);
  }
}

}  // namespace hone::rewards
