#include "rewards/lab/statistics.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

namespace hone::rewards {

std::vector<double> MeanRanks(absl::Span<const float> values) {
  std::vector<uint32_t> order(values.size());
  std::iota(order.begin(), order.end(), 0);
  std::sort(order.begin(), order.end(), [&](uint32_t a, uint32_t b) { return values[a] < values[b]; });
  std::vector<double> ranks(values.size());
  for (size_t begin = 0; begin < order.size();) {
    size_t end = begin + 1;
    while (end < order.size() && values[order[end]] == values[order[begin]]) ++end;
    const double rank = 0.5 * static_cast<double>(begin + 1 + end);  // mean of begin + 1 ... end
    for (size_t i = begin; i < end; ++i) ranks[order[i]] = rank;
    begin = end;
  }
  return ranks;
}

double Correlation(absl::Span<const double> a, absl::Span<const double> b) {
  const double count = static_cast<double>(a.size());
  const double mean_a = std::accumulate(a.begin(), a.end(), 0.0) / count;
  const double mean_b = std::accumulate(b.begin(), b.end(), 0.0) / count;
  double aa = 0, bb = 0, ab = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    aa += (a[i] - mean_a) * (a[i] - mean_a);
    bb += (b[i] - mean_b) * (b[i] - mean_b);
    ab += (a[i] - mean_a) * (b[i] - mean_b);
  }
  if (!(aa > 0 && bb > 0)) return std::numeric_limits<double>::quiet_NaN();
  return ab / std::sqrt(aa * bb);
}

std::vector<std::vector<double>> SpearmanMatrix(const std::vector<std::vector<float>>& columns) {
  const size_t count = columns.size();
  std::vector<std::vector<double>> matrix(count, std::vector<double>(count, 1));
  if (count < 2) return matrix;
  std::vector<std::vector<float>> shared(count);
  for (size_t row = 0; row < columns[0].size(); ++row) {
    const bool whole = std::none_of(columns.begin(), columns.end(), [&](const auto& c) { return std::isnan(c[row]); });
    for (size_t c = 0; whole && c < count; ++c) shared[c].push_back(columns[c][row]);
  }
  std::vector<std::vector<double>> ranks;
  for (std::vector<float>& column : shared) {
    ranks.push_back(MeanRanks(column));
    std::vector<float>().swap(column);
  }
  for (size_t a = 0; a < count; ++a) {
    for (size_t b = 0; b < a; ++b) matrix[a][b] = matrix[b][a] = Correlation(ranks[a], ranks[b]);
  }
  return matrix;
}

double Quantile(std::vector<float> values, double q) {
  values.erase(std::remove_if(values.begin(), values.end(), [](float v) { return std::isnan(v); }), values.end());
  if (values.empty()) return std::numeric_limits<double>::quiet_NaN();
  const double position = q * static_cast<double>(values.size() - 1);
  const auto below = static_cast<size_t>(position);
  std::nth_element(values.begin(), values.begin() + below, values.end());
  const double low = values[below];
  if (below + 1 == values.size()) return low;
  const double high = *std::min_element(values.begin() + below + 1, values.end());
  return low + (position - static_cast<double>(below)) * (high - low);
}

}  // namespace hone::rewards
