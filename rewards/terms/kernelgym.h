#pragma once

#include <optional>
#include <string>

#include "rewards/terms/speed_source.h"
#include "rewards/terms/term.h"

namespace hone::rewards {

/// s = 0.5 + 0.5 min(speedup, 3) + 0.5 coverage for a pass, 0 for any failure (a decoy, i.e. a cheat, included).
/// Coverage is the candidate's own kernels' share of device time. With `reject` on, a pass of coverage c gives a sample
/// with probability clip((c - 0.3) / 0.1, 0, 1), drawn by the turn's own number; failures always stay (profiling-based
/// rejection). Where coverage was not measured it adds nothing and rejects nothing, as their profiler fails open.
/// Source: Dr.Kernel / KernelGYM (reward and profiling-based rejection), weights and thresholds as released.
class KernelGymScore final : public Term {
 public:
  static constexpr const char* kName = "kernelgym";
  static constexpr const char* kSummary =
      "Pass 0.5 + 0.5 min(speedup, 3) + 0.5 coverage, failure 0; low coverage is rejected by lot";
  static constexpr const char* kSource = "Dr.Kernel / KernelGYM";

  double correct_weight = 0.5;
  double speed_weight = 0.5;
  double speed_cap = 3;
  double coverage_weight = 0.5;
  bool reject = true;
  double reject_from = 0.3;   // kept never below
  double reject_width = 0.1;  // kept always from reject_from + reject_width on
  SpeedSource speed;

  void Describe(Fields& fields) override;
  std::string Formula() const override;
  std::vector<Baseline> NeededBaselines() const override { return speed.Named(); }
  bool Timed(const Outcome& outcome) const override { return speed.Measured(outcome); }

 private:
  std::optional<double> ScoreJudged(const Outcome& outcome) const override;
};

}  // namespace hone::rewards
