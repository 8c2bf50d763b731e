#pragma once

// The MusaCoder score, also with a logarithmic speed term of our own.

#include <optional>
#include <string>

#include "rewards/terms/speed_source.h"
#include "rewards/terms/term.h"

namespace hone::rewards {

/// The part of the MusaCoder score that all failures share: -1 for a candidate that was not extracted, did not compile,
/// did not run, broke the rules, cheated or was right nowhere (q = 0); -0.5 + 0.5 q for one that was right on a share q
/// of its checks, 0 < q < 1: in (-0.5, 0). Expects a judged outcome that did not pass.
double FailureScore(const Outcome& outcome);

/// s = FailureScore for a failure; 1 + lambda * min(max(nu - 1, 0), nu_max) for a pass at speedup nu. In [-1, 1 +
/// lambda nu_max]; slower than the baseline pays exactly 1. No sample: a pass without the timing that `speed` names.
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
  std::optional<Baseline> NeededBaseline() const override { return speed.baseline; }

 private:
  std::optional<double> ScoreJudged(const Outcome& outcome) const override;
};

/// s = FailureScore for a failure; 1 + slope * clip(log2 nu, low, high) for a pass at speedup nu.
/// A log scale has no early cap and pays every doubling alike; a `low` below 0 also grades passes slower than the
/// baseline, where eq. 2 is flat. Keep 1 + slope * low well above 0, or the step from wrong to right disappears.
/// No sample: a pass without the timing that `speed` names.
/// Source: ours; the defaults come from training a small policy against scalar baselines on the CPU backend.
class LogSpeedScore final : public Term {
 public:
  static constexpr const char* kName = "log_speed";
  static constexpr const char* kSummary = "Failure as musacoder, pass 1 + slope clip(log2 nu, low, high)";
  static constexpr const char* kSource = "ours";

  double slope = 0.25;
  double low = 0;
  double high = 6;
  SpeedSource speed;

  void Describe(Fields& fields) override;
  absl::Status Validate() const override;
  std::string Formula() const override;
  std::optional<Baseline> NeededBaseline() const override { return speed.baseline; }

 private:
  std::optional<double> ScoreJudged(const Outcome& outcome) const override;
};

}  // namespace hone::rewards
