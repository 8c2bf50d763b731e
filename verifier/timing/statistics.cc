#include "verifier/timing/statistics.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

namespace hone::verifier {
namespace {

double Mean(const std::vector<double>& values) {
  return std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size());
}

/// 97.5 % quantile of Student's t, by degrees of freedom; above 30 by Cornish and Fisher's expansion (Abramowitz and
/// Stegun, 26.7.5).
double StudentQuantile(int freedom) {
  constexpr double kTable[] = {12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228,
                               2.201,  2.179, 2.160, 2.145, 2.131, 2.120, 2.110, 2.101, 2.093, 2.086,
                               2.080,  2.074, 2.069, 2.064, 2.060, 2.056, 2.052, 2.048, 2.045, 2.042};
  constexpr int kRows = static_cast<int>(std::size(kTable));
  if (freedom <= kRows) return kTable[std::max(freedom, 1) - 1];
  constexpr double z = 1.959964;
  return z + (z * z * z + z) / (4.0 * freedom);
}

/// The largest k with P(Bin(n, 1/2) < k) <= 2.5 %; 0 below n = 6.
int SignTestRank(int n) {
  double term = std::pow(0.5, n);  // P(Bin = 0)
  double below = 0;
  int k = 0;
  while (k < n) {
    below += term;
    if (below > 0.025) break;
    ++k;
    term *= static_cast<double>(n - k + 1) / k;
  }
  return k;
}

/// {low, high} around exp of the mean of the logarithms, as factors of it.
std::pair<double, double> StudentFactors(const std::vector<double>& ratios) {
  const int n = static_cast<int>(ratios.size());
  if (n < 2) return {0.5, 2.0};
  std::vector<double> logs(ratios.size());
  std::transform(ratios.begin(), ratios.end(), logs.begin(), [](double ratio) { return std::log(ratio); });
  const double mean = Mean(logs);
  double squares = 0;
  for (const double value : logs) squares += (value - mean) * (value - mean);
  const double half = StudentQuantile(n - 1) * std::sqrt(squares / (n - 1) / n);
  return {std::exp(-half), std::exp(half)};
}

}  // namespace

double Median(std::vector<double> values) {
  if (values.empty()) return 0;
  const size_t middle = values.size() / 2;
  std::nth_element(values.begin(), values.begin() + static_cast<std::ptrdiff_t>(middle), values.end());
  const double upper = values[middle];
  if (values.size() % 2 == 1) return upper;
  return (*std::max_element(values.begin(), values.begin() + static_cast<std::ptrdiff_t>(middle)) + upper) / 2;
}

Estimate Speedup(const std::vector<double>& baseline, const std::vector<double>& candidate,
                 SpeedupStatistic statistic) {
  std::vector<double> ratios(candidate.size());
  for (size_t i = 0; i < ratios.size(); ++i) ratios[i] = baseline[i] / candidate[i];
  Estimate estimate;
  estimate.samples = static_cast<int>(ratios.size());
  estimate.median = statistic == SpeedupStatistic::kRatioOfMeans ? Mean(baseline) / Mean(candidate) : Median(ratios);
  const int rank = SignTestRank(estimate.samples);
  if (statistic == SpeedupStatistic::kMedianOfRatios && rank > 0) {
    std::sort(ratios.begin(), ratios.end());
    estimate.low = ratios[static_cast<size_t>(rank) - 1];
    estimate.high = ratios[ratios.size() - static_cast<size_t>(rank)];
    return estimate;
  }
  const auto [low, high] = StudentFactors(ratios);
  estimate.low = estimate.median * low;
  estimate.high = estimate.median * high;
  return estimate;
}

double RelativeHalfWidth(const Estimate& estimate) {
  if (estimate.median <= 0) return std::numeric_limits<double>::infinity();
  return (estimate.high - estimate.low) / 2 / estimate.median;
}

bool CanNarrow(const Estimate& estimate, int most, double target) {
  return RelativeHalfWidth(estimate) * std::sqrt(static_cast<double>(estimate.samples) / most) <= target;
}

}  // namespace hone::verifier
