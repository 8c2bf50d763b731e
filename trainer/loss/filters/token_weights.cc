#include "trainer/loss/filters/token_weights.h"

#include <algorithm>

#include "absl/strings/str_cat.h"

namespace hone::trainer {

void TruncatedWeights::Describe(Fields& fields) {
  fields.Value("low", low, Range(0.0, 1.0), "smallest weight");
  fields.Value("high", high, Range(1.0, 1e9), "largest weight");
}
std::string TruncatedWeights::Formula() const {
  return absl::StrCat("weigh each token with clamp(rho, ", low, ", ", high, ")");
}
void TruncatedWeights::Narrow(const FilterBatch& batch, FilterDecision& decision) const {
  ForEachToken(batch, 0, batch.tokens(), [&](int64_t t) {
    const double delta = batch.LogRatio(t);
    if (!std::isfinite(delta)) return Reject(decision, t);
    Weigh(decision, t, std::clamp(RatioOf(delta), low, high));
  });
}

void SequenceTis::Describe(Fields& fields) {
  fields.Value("high", high, Range(1.0, 1e9), "largest weight");
  fields.Value("mask_above", mask_above, "drop a sequence above `high` in place of truncating its weight");
  DescribeDenominator(fields);
}
std::string SequenceTis::Formula() const {
  return mask_above ? absl::StrCat("weigh a sequence with the product of rho, drop it above ", high)
                    : absl::StrCat("weigh a sequence with min(product of rho, ", high, ")");
}
void SequenceTis::Narrow(const FilterBatch& batch, FilterDecision& decision) const {
  for (int64_t sequence = 0; sequence < batch.sequences(); ++sequence) {
    const SequenceRatios ratios = RatiosOf(batch, sequence);
    const double ratio = RatioOf(ratios.sum);
    const bool drop = !ratios.finite || (mask_above && ratio > high);
    ForEachToken(batch, ratios.begin, ratios.end, [&](int64_t token) {
      if (drop) return Reject(decision, token);
      Weigh(decision, token, std::min(ratio, high));
    });
  }
}

void TokenMis::Describe(Fields& fields) {
  fields.Value("low", low, Range(0.0, 1.0), "smallest rho that is kept");
  fields.Value("high", high, Range(1.0, 1e9), "largest rho that is kept");
  DescribeDenominator(fields);
}
std::string TokenMis::Formula() const {
  return absl::StrCat("keep a token iff ", low, " <= rho <= ", high, "; ", DenominatorInWords());
}
void TokenMis::Narrow(const FilterBatch& batch, FilterDecision& decision) const {
  ForEachToken(batch, 0, batch.tokens(), [&](int64_t t) {
    const double delta = batch.LogRatio(t);
    const double ratio = RatioOf(delta);
    if (!std::isfinite(delta) || ratio < low || ratio > high) Reject(decision, t);
  });
}

void IcePop::Describe(Fields& fields) {
  fields.Value("low", low, Range(0.0, 1.0), "smallest rho that is kept");
  fields.Value("high", high, Range(1.0, 1e9), "largest rho that is kept");
  DescribeDenominator(fields);
}
std::string IcePop::Formula() const {
  return absl::StrCat("weigh a token with rho where ", low, " <= rho <= ", high, ", drop it elsewhere; ",
                      DenominatorInWords());
}
void IcePop::Narrow(const FilterBatch& batch, FilterDecision& decision) const {
  ForEachToken(batch, 0, batch.tokens(), [&](int64_t t) {
    const double delta = batch.LogRatio(t);
    const double ratio = RatioOf(delta);
    if (!std::isfinite(delta) || ratio < low || ratio > high) return Reject(decision, t);
    Weigh(decision, t, ratio);
  });
}

void SequenceMaskTis::Describe(Fields& fields) {
  fields.Value("low", low, Range(0.0, 1.0), "smallest geometric mean of rho that is kept");
  fields.Value("high", high, Range(1.0, 1e9), "largest geometric mean of rho that is kept");
  DescribeDenominator(fields);
}
std::string SequenceMaskTis::Formula() const {
  return absl::StrCat("keep a sequence iff ", low, " <= exp(mean log rho) <= ", high,
                      " and weigh its tokens with rho; ", DenominatorInWords());
}
void SequenceMaskTis::Narrow(const FilterBatch& batch, FilterDecision& decision) const {
  for (int64_t sequence = 0; sequence < batch.sequences(); ++sequence) {
    const SequenceRatios ratios = RatiosOf(batch, sequence);
    const double mean = RatioOf(ratios.mean());
    const bool keep = ratios.finite && low <= mean && mean <= high;
    ForEachToken(batch, ratios.begin, ratios.end, [&](int64_t token) {
      if (!keep) return Reject(decision, token);
      Weigh(decision, token, RatioOf(batch.LogRatio(token)));
    });
  }
}

void Dppo::Describe(Fields& fields) {
  fields.Value("delta", delta, Range(0.0, 1.0), "largest change of a token's probability");
  fields.Value("both_sides", both_sides, "drop whatever the sign of the advantage");
  DescribeDenominator(fields);
}
std::string Dppo::Formula() const {
  return absl::StrCat("drop a token whose probability differs by more than ", delta,
                      both_sides ? "" : " along the sign of its advantage", ", weigh the others with rho; ",
                      DenominatorInWords());
}
void Dppo::Narrow(const FilterBatch& batch, FilterDecision& decision) const {
  for (int64_t sequence = 0; sequence < batch.sequences(); ++sequence) {
    const double advantage = batch.advantages[sequence];
    ForEachToken(batch, batch.offsets[sequence], batch.offsets[sequence + 1], [&](int64_t token) {
      const double log_ratio = batch.LogRatio(token);
      const double moved = std::exp(batch.train_log_probs[token]) - std::exp(batch.rollout_log_probs[token]);
      const bool too_far =
          both_sides ? std::fabs(moved) > delta : (advantage > 0 && moved > delta) || (advantage < 0 && moved < -delta);
      if (!std::isfinite(log_ratio) || too_far) return Reject(decision, token);
      Weigh(decision, token, RatioOf(log_ratio));
    });
  }
}

}  // namespace hone::trainer
