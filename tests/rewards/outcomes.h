#pragma once

// Outcomes and verdicts for the reward tests.

#include "rewards/outcome.h"

namespace hone::rewards {

inline Outcome Failed(VerdictStatus status, double correct_rate = 0) {
  Outcome outcome;
  outcome.status = status;
  outcome.correct_rate = correct_rate;
  return outcome;
}

/// A pass whose interval is [low, high] around `median`, timed over `baseline`.
inline Outcome Passed(double median, double low, double high, Baseline baseline = Baseline::kEager) {
  Outcome outcome;
  outcome.status = VerdictStatus::kOk;
  outcome.correct_rate = 1;
  outcome.first_baseline = baseline;
  outcome.speedups[static_cast<int>(baseline)] = {median, low, high};
  return outcome;
}
inline Outcome Passed(double speedup) { return Passed(speedup, speedup, speedup); }

inline Outcome Infra() { return Failed(VerdictStatus::kInfra); }

inline constexpr VerdictStatus kAllStatuses[] = {VerdictStatus::kOk,
                                                 VerdictStatus::kParse,
                                                 VerdictStatus::kForbidden,
                                                 VerdictStatus::kCompile,
                                                 VerdictStatus::kCompileTimeout,
                                                 VerdictStatus::kRuntime,
                                                 VerdictStatus::kTimeout,
                                                 VerdictStatus::kOom,
                                                 VerdictStatus::kIncorrect,
                                                 VerdictStatus::kCheat,
                                                 VerdictStatus::kInfra};

}  // namespace hone::rewards
