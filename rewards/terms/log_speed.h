#pragma once

#include <optional>
#include <string>
#include <vector>

#include "rewards/terms/speed_source.h"
#include "rewards/terms/term.h"

namespace hone::rewards {

/// s = FailureScore for a failure; 1 + slope * clip(log2 nu, low, high) for a pass at speedup nu.
/// A log scale has no early cap and pays every doubling alike; a `low` below 0 also grades passes slower than the
/// baseline, where eq. 2 is flat. Keep 1 + slope * low well above 0, or the step from wrong to right disappears.
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
  std::vector<Baseline> NeededBaselines() const override { return speed.Named(); }
  bool Timed(const Outcome& outcome) const override { return speed.Measured(outcome); }

 private:
  std::optional<double> ScoreJudged(const Outcome& outcome) const override;
};

}  // namespace hone::rewards
