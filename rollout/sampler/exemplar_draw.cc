#include "rollout/sampler/exemplar_draw.h"

#include <algorithm>
#include <cmath>

#include "base/status_macros.h"

namespace hone::rollout {
namespace {

/// An index with probability proportional to its weight.
int64_t DrawIndex(absl::Span<const double> weights, SplitMix& random) {
  double total = 0;
  for (const double weight : weights) total += weight;
  double left = random.Uniform() * total;
  int64_t last = 0;
  for (size_t i = 0; i < weights.size(); ++i) {
    if (weights[i] <= 0) continue;
    last = static_cast<int64_t>(i);
    left -= weights[i];
    if (left < 0) break;
  }
  return last;  // rounding may leave a little over: the last index with any weight takes it
}

}  // namespace

std::vector<double> BucketProbabilities(absl::Span<const double> bucket_means, double tau) {
  const double top = *std::max_element(bucket_means.begin(), bucket_means.end());
  std::vector<double> probabilities;
  double sum = 0;
  for (const double mean : bucket_means) {
    probabilities.push_back(std::exp((mean - top) / tau));
    sum += probabilities.back();
  }
  for (double& probability : probabilities) probability /= sum;
  return probabilities;
}

std::pair<int64_t, int64_t> DrawTwoBuckets(absl::Span<const double> bucket_means, double tau, SplitMix& random) {
  HONE_CHECK(bucket_means.size() >= 2);
  const int64_t first = DrawIndex(BucketProbabilities(bucket_means, tau), random);
  // Recomputed without the first, so that a bucket far below it still has a chance that is not rounded to zero.
  std::vector<double> others(bucket_means.begin(), bucket_means.end());
  others.erase(others.begin() + first);
  const int64_t second = DrawIndex(BucketProbabilities(others, tau), random);
  return {first, second < first ? second : second + 1};
}

}  // namespace hone::rollout
