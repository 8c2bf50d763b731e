#pragma once

// Rank statistics over many episodes. NaN marks an episode without a reward.

#include <cstdint>
#include <vector>

#include "absl/types/span.h"

namespace hone::rewards {

/// Ranks from 1, equal values sharing their mean rank. No NaN.
std::vector<double> MeanRanks(absl::Span<const float> values);

/// Pearson's correlation; NaN when either side does not vary or has fewer than two values.
double Correlation(absl::Span<const double> a, absl::Span<const double> b);

/// Spearman's rank correlation of every pair of columns, over the rows in which no column is NaN. [columns][columns].
std::vector<std::vector<double>> SpearmanMatrix(const std::vector<std::vector<float>>& columns);

/// Quantile by linear interpolation of the sorted values (NaN left out); NaN of none. 0 <= q <= 1.
double Quantile(std::vector<float> values, double q);

}  // namespace hone::rewards
