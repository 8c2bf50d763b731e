#include "rewards/terms/milestones.h"

#include "absl/strings/str_cat.h"

namespace hone::rewards {

void MilestoneScore::Describe(Fields& fields) {
  fields.Value("margin", margin, Range(0.0, 0.99), "share of the baseline's time that must be saved");
  std::string estimate = median ? "median" : "lower_bound";
  fields.Value("estimate", estimate, OneOf{{"lower_bound", "median"}}, "which point of the 95 % interval counts");
  median = estimate == "median";
}

std::string MilestoneScore::Formula() const {
  return absl::StrCat("-1 for a failure, 1 for a pass, 2 when it saves more than ", margin,
                      " of eager's time, 3 when it saves as much of torch.compile's too; by the ",
                      median ? "median" : "lower bound", " of the speedup");
}

bool MilestoneScore::Timed(const Outcome& outcome) const {
  return outcome.speedups[static_cast<int>(Baseline::kEager)].measured() &&
         outcome.speedups[static_cast<int>(Baseline::kCompile)].measured();
}

bool MilestoneScore::Beats(const Outcome& outcome, Baseline baseline) const {
  const SpeedSource source{baseline, median};
  return 1 - 1 / source.Read(outcome) > margin;
}

std::optional<double> MilestoneScore::ScoreJudged(const Outcome& outcome) const {
  if (!outcome.passed()) return -1;
  if (!Beats(outcome, Baseline::kEager)) return 1;
  return Beats(outcome, Baseline::kCompile) ? 3 : 2;
}

}  // namespace hone::rewards
