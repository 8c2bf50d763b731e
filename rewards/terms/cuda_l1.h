#pragma once

// CUDA-L1's speedup reward with its measurement rules.

#include <optional>
#include <string>

#include "absl/types/span.h"
#include "rewards/terms/speed_source.h"
#include "rewards/terms/term.h"

namespace hone::rewards {

/// Median of the means of `buckets` runs of single-run scores (in order of measurement, of equal length to one).
/// std::nullopt: fewer scores than buckets, or the variance (population) of the bucket means is above `max_variance`:
/// the evaluation is discarded. Source: CUDA-L1, arXiv:2507.14111, section 3, eq. 3. Whether the variance divides by 7
/// or 6 is not published: 7 here.
std::optional<double> MedianOfBuckets(absl::Span<const double> scores, int buckets, double max_variance);

/// Two decimals, towards 1: 1.118 -> 1.11, 0.992 -> 1.00. Source: same.
double RoundTowardsOne(double speedup);

/// When a score is too good to be believed at once, and when a second measurement confirms it.
/// Source: CUDA-L1, same section: above 3, or above twice the task's best so far, measure again on another device of
/// the same kind; reject when the two differ by more than 10 %. Ours: the difference is relative to the smaller score.
struct RemeasureRule {
  double absolute = 3;
  double over_best = 2;
  double tolerance = 0.1;

  bool Doubts(double speedup, std::optional<double> best_so_far) const;
  bool Confirms(double first, double second) const;
};

/// r = speedup of a pass, rounded towards 1; 0 for any failure.
/// With the paired ratios of the verdict at hand, a pass whose 7 bucket means vary by more than 0.005 is discarded (no
/// sample), and `estimate: median` pays the median of the bucket means, which is the paper's rule. The default pays the
/// lower bound of the verdict's interval. Smoothing (eq. 6) belongs to the pipeline, re-measuring to the exemplar
/// store.
class CudaL1Speedup final : public Term {
 public:
  static constexpr const char* kName = "cuda_l1";
  static constexpr const char* kSummary =
      "Speedup rounded towards 1, failure 0; discarded when the means of 7 buckets vary by more than 0.005";
  static constexpr const char* kSource = "CUDA-L1, arXiv:2507.14111, eq. 3 and its measurement rules";

  int64_t buckets = 7;
  double max_variance = 0.005;
  SpeedSource speed;

  void Describe(Fields& fields) override;
  std::string Formula() const override;
  std::vector<Baseline> NeededBaselines() const override { return speed.Named(); }
  bool Timed(const Outcome& outcome) const override { return speed.Measured(outcome); }

 private:
  std::optional<double> ScoreJudged(const Outcome& outcome) const override;
};

}  // namespace hone::rewards
