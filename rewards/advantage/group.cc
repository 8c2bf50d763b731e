#include "rewards/advantage/group.h"

#include <algorithm>
#include <cmath>

#include "absl/strings/str_cat.h"

namespace hone::rewards {
namespace {

/// A_i = (r_i - mean) * scale(stats); groups without signal get exact zeros.
template <class Scale>
void CentreGroups(absl::Span<const Sample> samples, absl::Span<double> advantages, Scale scale) {
  ForEachGroup(samples, [&](size_t begin, size_t end) {
    const RewardStats stats = StatsOf(samples.subspan(begin, end - begin));
    const double factor = stats.equal() ? 0 : scale(stats);
    for (size_t i = begin; i < end; ++i) {
      advantages[i] = stats.equal() ? 0 : (samples[i].reward - stats.mean) * factor;
    }
  });
}

double LeaveOneOut(const RewardStats& stats) {
  return static_cast<double>(stats.count) / static_cast<double>(stats.count - 1);
}

}  // namespace

RewardStats StatsOf(absl::Span<const Sample> samples) {
  RewardStats stats;
  stats.count = static_cast<int64_t>(samples.size());
  if (samples.empty()) return stats;
  stats.min = stats.max = samples[0].reward;
  double sum = 0;
  for (const Sample& sample : samples) {
    sum += sample.reward;
    stats.min = std::min(stats.min, sample.reward);
    stats.max = std::max(stats.max, sample.reward);
  }
  stats.mean = sum / static_cast<double>(stats.count);
  double squares = 0;
  for (const Sample& sample : samples) squares += (sample.reward - stats.mean) * (sample.reward - stats.mean);
  stats.std = std::sqrt(squares / static_cast<double>(stats.count));
  return stats;
}

void Grpo::Describe(Fields& fields) {
  fields.Value("epsilon", epsilon, Range(1e-12, 10.0), "added to the standard deviation");
}
std::string Grpo::Formula() const { return absl::StrCat("A = (R - group mean) / (group std + ", epsilon, ")"); }
void Grpo::Compute(absl::Span<const Sample> samples, absl::Span<double> advantages) const {
  CentreGroups(samples, advantages, [this](const RewardStats& stats) { return 1 / (stats.std + epsilon); });
}

std::string DrGrpo::Formula() const { return "A = R - group mean"; }
void DrGrpo::Compute(absl::Span<const Sample> samples, absl::Span<double> advantages) const {
  CentreGroups(samples, advantages, [](const RewardStats&) { return 1.0; });
}

std::string Rloo::Formula() const { return "A = R - mean of the other group members"; }
void Rloo::Compute(absl::Span<const Sample> samples, absl::Span<double> advantages) const {
  CentreGroups(samples, advantages, LeaveOneOut);
}

std::string Trloo::Formula() const { return "A = N / (N - 1) * (R - mean of the group); a group of one: A = R"; }
void Trloo::Compute(absl::Span<const Sample> samples, absl::Span<double> advantages) const {
  CentreGroups(samples, advantages, LeaveOneOut);
  ForEachGroup(samples, [&](size_t begin, size_t end) {
    if (end - begin == 1) advantages[begin] = samples[begin].reward;
  });
}

}  // namespace hone::rewards
