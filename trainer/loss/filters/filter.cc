#include "trainer/loss/filters/filter.h"

#include <algorithm>

namespace hone::trainer {

void Filter::DescribeDenominator(Fields& fields) {
  std::string word = shrink_ ? "shrink" : "keep";
  fields.Value("denominator", word, OneOf{{"keep", "shrink"}},
               "whether a rejected token still counts in the loss denominator");
  shrink_ = word == "shrink";
}

std::string Filter::DenominatorInWords() const {
  return shrink_ ? "a rejected token leaves the denominator" : "a rejected token stays in the denominator";
}

void Filter::Reject(FilterDecision& decision, int64_t token) const {
  decision.weight[token] = 0;
  if (shrink_) decision.counted[token] = 0;
}

void Filter::Weigh(FilterDecision& decision, int64_t token, double factor) {
  decision.weight[token] = static_cast<float>(decision.weight[token] * factor);
}

double RatioOf(double log_ratio) { return std::exp(std::clamp(log_ratio, -kMaxLogRatio, kMaxLogRatio)); }

void ForEachToken(const FilterBatch& batch, int64_t begin, int64_t end, absl::FunctionRef<void(int64_t)> visit) {
  for (int64_t t = begin; t < end; ++t) {
    if (batch.mask[t] != 0) visit(t);
  }
}

SequenceRatios RatiosOf(const FilterBatch& batch, int64_t sequence) {
  SequenceRatios ratios;
  ratios.begin = batch.offsets[sequence];
  ratios.end = batch.offsets[sequence + 1];
  ForEachToken(batch, ratios.begin, ratios.end, [&](int64_t t) {
    const double delta = batch.LogRatio(t);
    if (!std::isfinite(delta)) {
      ratios.finite = false;
      return;
    }
    ratios.min = ratios.tokens == 0 ? delta : std::min(ratios.min, delta);
    ++ratios.tokens;
    ratios.sum += delta;
    ratios.sum_abs += std::fabs(delta);
  });
  return ratios;
}

}  // namespace hone::trainer
