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

/// The largest k with P(W < k) <= 2.5 %, W being the sum of the ranks with a positive sign among n; 0 below n = 6.
int SignedRank(int n) {
  const int most = n * (n + 1) / 2;
  std::vector<double> share(static_cast<size_t>(most) + 1, 0.0);  // P(W = sum) over the ranks so far
  share[0] = 1;
  for (int rank = 1, reached = 0; rank <= n; ++rank) {
    reached += rank;
    for (int sum = reached; sum >= 0; --sum) {
      const auto at = static_cast<size_t>(sum);
      share[at] = 0.5 * (share[at] + (sum >= rank ? share[at - static_cast<size_t>(rank)] : 0.0));
    }
  }
  double below = 0;
  int k = 0;
  while (k < most && (below += share[static_cast<size_t>(k)]) <= 0.025) ++k;
  return k;
}

/// The mean of each pair of values, and each value itself, ascending.
std::vector<double> PairMeans(const std::vector<double>& values) {
  std::vector<double> means;
  means.reserve(values.size() * (values.size() + 1) / 2);
  for (size_t i = 0; i < values.size(); ++i) {
    for (size_t j = i; j < values.size(); ++j) means.push_back((values[i] + values[j]) / 2);
  }
  std::sort(means.begin(), means.end());
  return means;
}

std::vector<double> Logarithms(const std::vector<double>& values) {
  std::vector<double> logs(values.size());
  std::transform(values.begin(), values.end(), logs.begin(), [](double value) { return std::log(value); });
  return logs;
}

/// {low, high} around exp of the mean of the logarithms, as factors of it.
std::pair<double, double> StudentFactors(const std::vector<double>& ratios) {
  const int n = static_cast<int>(ratios.size());
  if (n < 2) return {0.5, 2.0};
  const std::vector<double> logs = Logarithms(ratios);
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
  if (statistic == SpeedupStatistic::kRatioOfMeans) {
    estimate.median = Mean(baseline) / Mean(candidate);
  } else {
    const std::vector<double> means = PairMeans(Logarithms(ratios));
    estimate.median = std::exp(Median(means));
    if (const int rank = SignedRank(estimate.samples); rank > 0) {
      estimate.low = std::exp(means[static_cast<size_t>(rank) - 1]);
      estimate.high = std::exp(means[means.size() - static_cast<size_t>(rank)]);
      return estimate;
    }
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
