#pragma once

// From paired samples to a median with its 95 % interval.

#include <vector>

#include "base/protocol.h"
#include "base/verdict.h"

namespace hone::verifier {

/// The middle value, or the mean of the middle two. 0 for no values.
double Median(std::vector<double> values);

/// Interval of the ratio baseline / candidate from paired times, at least one pair, all positive.
///
/// kMedianOfRatios: the median of the paired ratios as Hodges and Lehmann estimate it (Ann. Math. Stat. 34, 1963): the middle
/// one of the geometric means of all pairs of ratios, each with itself included. Up to 29 % of the rounds may be anything.
/// From 6 pairs on the interval is that of Wilcoxon's signed ranks, exact where the logarithms are symmetric around their
/// middle: order statistics [k, m+1-k] of those m means with the largest k of P(W < k) <= 2.5 % (Conover, Practical
/// Nonparametric Statistics, 5.7). From 2 to 5, where no such k exists, Student's t on the logarithms.
/// kRatioOfMeans: ratio of the means, with the interval of Student's t on the logarithms' mean (first order).
/// One pair says nothing about its spread: the interval is half to twice the ratio.
Estimate Speedup(const std::vector<double>& baseline, const std::vector<double>& candidate, SpeedupStatistic statistic);

/// Half the width of the interval relative to the median.
double RelativeHalfWidth(const Estimate& estimate);

/// Whether the interval can be expected to be as narrow as `target`, relative to the median, once there are `most` pairs: it
/// shrinks with the square root of their number.
bool CanNarrow(const Estimate& estimate, int most, double target);

}  // namespace hone::verifier
