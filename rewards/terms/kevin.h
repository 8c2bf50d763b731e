#pragma once

#include <optional>
#include <string>
#include <vector>

#include "rewards/terms/speed_source.h"
#include "rewards/terms/term.h"

namespace hone::rewards {

/// s = 0.3 + speedup for a pass, 0 for any failure; unbounded above. Combine with `turns: {name: discounted_return}`.
/// Source: Kevin, arXiv:2507.11948. The return (gamma 0.4) is confirmed by summaries of the paper; the weight 0.3 is
/// remembered and was not checked against it.
class KevinScore final : public Term {
 public:
  static constexpr const char* kName = "kevin";
  static constexpr const char* kSummary = "Pass 0.3 + speedup, failure 0";
  static constexpr const char* kSource = "Kevin, arXiv:2507.11948; the weight 0.3 is unverified";
  double correct_weight = 0.3;
  SpeedSource speed;
  void Describe(Fields& fields) override;
  std::string Formula() const override;
  std::vector<Baseline> NeededBaselines() const override { return speed.Named(); }
  bool Timed(const Outcome& outcome) const override { return speed.Measured(outcome); }

 private:
  std::optional<double> ScoreJudged(const Outcome& outcome) const override;
};

}  // namespace hone::rewards
