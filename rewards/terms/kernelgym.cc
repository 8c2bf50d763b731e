#include "rewards/terms/kernelgym.h"

#include <algorithm>

#include "absl/strings/str_cat.h"

namespace hone::rewards {

void KernelGymScore::Describe(Fields& fields) {
  fields.Value("correct_weight", correct_weight, Range(0.0, 100.0), "for passing");
  fields.Value("speed_weight", speed_weight, Range(0.0, 100.0), "of the capped speedup");
  fields.Value("speed_cap", speed_cap, Range(0.0, 1e6), "largest speedup that pays");
  fields.Value("coverage_weight", coverage_weight, Range(0.0, 100.0), "of the custom kernels' share of device time");
  fields.Value("reject", reject, "draw lots over passes of low coverage");
  fields.Value("reject_from", reject_from, Range(0.0, 1.0), "coverage at and below which a pass is never kept");
  fields.Value("reject_width", reject_width, Range(1e-6, 1.0),
               "a pass is always kept from reject_from + reject_width on");
  speed.Describe(fields);
}

std::string KernelGymScore::Formula() const {
  std::string text = absl::StrCat("0 for a failure, ", correct_weight, " + ", speed_weight, " * min(nu, ", speed_cap,
                                  ") + ", coverage_weight, " * coverage for a pass; nu = ", speed.InWords());
  if (reject) {
    absl::StrAppend(&text, "; a pass is kept with probability clip((coverage - ", reject_from, ") / ", reject_width,
                    ", 0, 1)");
  }
  return text;
}

std::optional<double> KernelGymScore::ScoreJudged(const Outcome& outcome) const {
  if (!outcome.passed()) return 0;
  if (reject && outcome.coverage) {
    const double keep = std::clamp((*outcome.coverage - reject_from) / reject_width, 0.0, 1.0);
    if (outcome.uniform >= keep) return std::nullopt;
  }
  return correct_weight + speed_weight * std::min(speed.Read(outcome), speed_cap) +
         coverage_weight * outcome.coverage.value_or(0);
}

}  // namespace hone::rewards
