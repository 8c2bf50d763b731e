#pragma once

// The draw of CUDA-L1's contrastive exemplars, as pure functions.

#include <cstdint>
#include <utility>
#include <vector>

#include "absl/types/span.h"
#include "rollout/sampler/random.h"

namespace hone::rollout {

/// P(i) = exp((mean_i - mu) / tau) / sum_j exp((mean_j - mu) / tau), mu the mean of the bucket means. `tau` > 0.
/// Source: CUDA-L1, arXiv:2507.14111, exemplar sampling. (The softmax does not depend on mu; it keeps exp in range,
/// here together with the largest exponent.)
std::vector<double> BucketProbabilities(absl::Span<const double> bucket_means, double tau);

/// Two distinct buckets: the first by P, the second by P without the first, renormalised. Needs at least two. Ours: how
/// distinctness is drawn is not published.
std::pair<int64_t, int64_t> DrawTwoBuckets(absl::Span<const double> bucket_means, double tau, SplitMix& random);

}  // namespace hone::rollout
