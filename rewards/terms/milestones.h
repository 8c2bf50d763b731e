#pragma once

#include <optional>
#include <string>
#include <vector>

#include "rewards/terms/speed_source.h"
#include "rewards/terms/term.h"

namespace hone::rewards {

/// -1 for any failure, 1 for a pass, 2 when it takes at least `margin` less time than eager, 3 when it also takes at
/// least `margin` less time than torch.compile: saved share 1 - 1/speedup > margin. Reads both baselines. Source:
/// CUDA-Agent. The levels {-1, 1, 2, 3} are remembered and were not checked against a source; the 5 % target is.
class MilestoneScore final : public Term {
 public:
  static constexpr const char* kName = "milestones";
  static constexpr const char* kSummary = "Failure -1, pass 1, faster than eager 2, faster than torch.compile too 3";
  static constexpr const char* kSource = "CUDA-Agent; the levels are unverified";
  double margin = 0.05;
  bool median = false;
  void Describe(Fields& fields) override;
  std::string Formula() const override;
  std::vector<Baseline> NeededBaselines() const override { return {Baseline::kEager, Baseline::kCompile}; }
  bool Timed(const Outcome& outcome) const override;

 private:
  bool Beats(const Outcome& outcome, Baseline baseline) const;
  std::optional<double> ScoreJudged(const Outcome& outcome) const override;
};

}  // namespace hone::rewards
