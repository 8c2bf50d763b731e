#pragma once

#include <optional>
#include <string>

#include "rewards/terms/speed_source.h"
#include "rewards/terms/term.h"

namespace hone::rewards {

/// The part of the MusaCoder score that all failures share: -1 for a candidate that was not extracted, did not compile,
/// did not run, broke the rules, cheated or was right nowhere (q = 0); -0.5 + 0.5 q for one that was right on a share q
/// of its checks, 0 < q < 1: in (-0.5, 0). Expects a judged outcome that did not pass.
double FailureScore(const Outcome& outcome);
inline constexpr char kFailureFormula[] = "-1 for a failure, -0.5 + 0.5 q where a share q of the checks was right";

/// s = FailureScore for a failure; 1 + lambda * min(max(nu - 1, 0), nu_max) for a pass at speedup nu. In [-1, 1 +
/// lambda nu_max]; slower than the baseline pays exactly 1.
/// Source: MusaCoder, arXiv:2606.04847, section 4.3.2, eq. 2. Ours: lambda 0.5 and nu_max 4 (the paper leaves both
/// open).
class MusaCoderScore final : public Term {
 public:
  static constexpr const char* kName = "musacoder";
  static constexpr const char* kSummary =
      "Failure -1, partly right -0.5 + 0.5 q, pass 1 + lambda min(max(nu - 1, 0), nu_max)";
  static constexpr const char* kSource = "MusaCoder, arXiv:2606.04847, eq. 2; defaults of lambda and nu_max are ours";

  double lambda = 0.5;
  double nu_max = 4;
  SpeedSource speed;

  void Describe(Fields& fields) override;
  std::string Formula() const override;
  std::vector<Baseline> NeededBaselines() const override { return speed.Named(); }
  bool Timed(const Outcome& outcome) const override { return speed.Measured(outcome); }

 private:
  std::optional<double> ScoreJudged(const Outcome& outcome) const override;
};

}  // namespace hone::rewards
