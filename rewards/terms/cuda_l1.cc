#include "rewards/terms/cuda_l1.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "absl/strings/str_cat.h"

namespace hone::rewards {
namespace {

double MeanOf(absl::Span<const double> values) {
  double sum = 0;
  for (const double value : values) sum += value;
  return sum / static_cast<double>(values.size());
}

double VarianceOf(absl::Span<const double> values) {
  const double mean = MeanOf(values);
  double squares = 0;
  for (const double value : values) squares += (value - mean) * (value - mean);
  return squares / static_cast<double>(values.size());
}

double MedianOf(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  const size_t half = values.size() / 2;
  return values.size() % 2 == 1 ? values[half] : 0.5 * (values[half - 1] + values[half]);
}

}  // namespace

std::optional<double> MedianOfBuckets(absl::Span<const double> scores, int buckets, double max_variance) {
  const size_t count = static_cast<size_t>(buckets);
  if (scores.size() < count) return std::nullopt;
  std::vector<double> means;
  for (size_t i = 0; i < count; ++i) {
    const size_t begin = scores.size() * i / count;
    const size_t end = scores.size() * (i + 1) / count;
    means.push_back(MeanOf(scores.subspan(begin, end - begin)));
  }
  const double variance = VarianceOf(means);
  if (!std::isfinite(variance) || variance > max_variance) return std::nullopt;
  return MedianOf(std::move(means));
}

double RoundTowardsOne(double speedup) {
  constexpr double kSlack = 1e-9;  // 100 * 1.15 is 114.99999999999999 in floating point and means 115
  return speedup >= 1 ? std::floor(100 * speedup + kSlack) / 100 : std::ceil(100 * speedup - kSlack) / 100;
}

bool RemeasureRule::Doubts(double speedup, std::optional<double> best_so_far) const {
  return speedup > absolute || (best_so_far && speedup > over_best * *best_so_far);
}

bool RemeasureRule::Confirms(double first, double second) const {
  return std::fabs(first - second) <= tolerance * std::min(first, second);
}

void CudaL1Speedup::Describe(Fields& fields) {
  fields.Value("buckets", buckets, Range<int64_t>(1, 1000), "runs that the single-run scores are split into");
  fields.Value("max_variance", max_variance, Range(0.0, 1e6), "of the bucket means; above it the pass is discarded");
  speed.Describe(fields);
}

std::string CudaL1Speedup::Formula() const {
  return absl::StrCat("0 for a failure, the ", speed.InWords(),
                      " for a pass, two decimals, rounded towards 1; no sample when ", buckets,
                      " bucket means vary by more than ", max_variance);
}

std::optional<double> CudaL1Speedup::ScoreJudged(const Outcome& outcome) const {
  if (!outcome.passed()) return 0;
  const bool samples_fit = !speed.baseline || speed.baseline == outcome.first_baseline;
  const bool enough = samples_fit && outcome.samples.size() >= static_cast<size_t>(buckets);
  if (!enough) return RoundTowardsOne(speed.Read(outcome));
  const std::optional<double> median = MedianOfBuckets(outcome.samples, static_cast<int>(buckets), max_variance);
  if (!median) return std::nullopt;
  return RoundTowardsOne(speed.median ? *median : speed.Read(outcome));
}

}  // namespace hone::rewards
