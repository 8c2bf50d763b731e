#pragma once

#include <optional>
#include <string>

#include "rewards/terms/term.h"

namespace hone::rewards {

/// The share of device time in the candidate's own kernels for a pass, 0 for a failure and where it was not measured.
/// Source: the coverage part of Dr.Kernel's reward.
class CoverageScore final : public Term {
 public:
  static constexpr const char* kName = "coverage";
  static constexpr const char* kSummary = "Share of device time in the candidate's own kernels for a pass, failure 0";
  static constexpr const char* kSource = "Dr.Kernel / KernelGYM";
  std::string Formula() const override;

 private:
  std::optional<double> ScoreJudged(const Outcome& outcome) const override;
};

}  // namespace hone::rewards
