#pragma once

#include <optional>
#include <string>

#include "rewards/terms/term.h"

namespace hone::rewards {

/// `pass` for a pass, `fail` for any failure.
class CorrectnessScore final : public Term {
 public:
  static constexpr const char* kName = "correct";
  static constexpr const char* kSummary = "One number for a pass, another for a failure";
  static constexpr const char* kSource = "plain outcome reward; CUDA-L1's stage 2 with pass 1, fail 0";
  double pass = 1;
  double fail = 0;
  void Describe(Fields& fields) override;
  std::string Formula() const override;

 private:
  std::optional<double> ScoreJudged(const Outcome& outcome) const override;
};

}  // namespace hone::rewards
