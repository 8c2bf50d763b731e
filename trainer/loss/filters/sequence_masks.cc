#include "trainer/loss/filters/sequence_masks.h"

#include <algorithm>

#include "absl/strings/str_cat.h"

namespace hone::trainer {
namespace {

bool Within(double value, double low, double high) { return low <= value && value <= high; }

}  // namespace

void SequenceMask::Narrow(const FilterBatch& batch, FilterDecision& decision) const {
  for (int64_t sequence = 0; sequence < batch.sequences(); ++sequence) {
    const SequenceRatios ratios = RatiosOf(batch, sequence);
    if (ratios.finite && (ratios.tokens == 0 || Keeps(batch, sequence, ratios))) continue;
    ForEachToken(batch, ratios.begin, ratios.end, [&](int64_t token) { Reject(decision, token); });
  }
}

void MirrorPop::Describe(Fields& fields) {
  fields.Value("delta", delta, Range(0.0, 20.0), "largest mean of |log rho| that is kept");
  DescribeDenominator(fields);
}
std::string MirrorPop::Formula() const {
  return absl::StrCat("keep a sequence iff mean |log rho| <= ", delta, "; ", DenominatorInWords());
}
bool MirrorPop::Keeps(const FilterBatch&, int64_t, const SequenceRatios& ratios) const {
  return ratios.mean_abs() <= delta;
}

void SequenceMis::Describe(Fields& fields) {
  fields.Value("low", low, Range(0.0, 1.0), "smallest product of rho that is kept");
  fields.Value("high", high, Range(1.0, 1e9), "largest product of rho that is kept");
  DescribeDenominator(fields);
}
std::string SequenceMis::Formula() const {
  return absl::StrCat("keep a sequence iff ", low, " <= product of rho <= ", high, "; ", DenominatorInWords());
}
bool SequenceMis::Keeps(const FilterBatch&, int64_t, const SequenceRatios& ratios) const {
  return Within(RatioOf(ratios.sum), low, high);
}

void GeometricMask::Describe(Fields& fields) {
  fields.Value("low", low, Range(0.0, 1.0), "smallest geometric mean of rho that is kept");
  fields.Value("high", high, Range(1.0, 1e9), "largest geometric mean of rho that is kept");
  DescribeDenominator(fields);
}
std::string GeometricMask::Formula() const {
  return absl::StrCat("keep a sequence iff ", low, " <= exp(mean log rho) <= ", high, "; ", DenominatorInWords());
}
bool GeometricMask::Keeps(const FilterBatch&, int64_t, const SequenceRatios& ratios) const {
  return Within(RatioOf(ratios.mean()), low, high);
}

void Veto::Describe(Fields& fields) {
  fields.Value("limit", limit, Range(0.0, 1.0), "smallest rho that a token may have");
  DescribeDenominator(fields);
}
std::string Veto::Formula() const {
  return absl::StrCat("reject a sequence with any rho < ", limit, "; ", DenominatorInWords());
}
bool Veto::Keeps(const FilterBatch&, int64_t, const SequenceRatios& ratios) const {
  return RatioOf(ratios.min) >= limit;
}

void Opsm::Describe(Fields& fields) {
  fields.Value("delta", delta, Range(-20.0, 20.0),
               "largest mean of -log rho that a sequence of negative advantage may have");
  DescribeDenominator(fields);
}
std::string Opsm::Formula() const {
  return absl::StrCat("reject a sequence with A < 0 and mean of -log rho > ", delta, "; ", DenominatorInWords());
}
bool Opsm::Keeps(const FilterBatch& batch, int64_t sequence, const SequenceRatios& ratios) const {
  return batch.advantages[sequence] >= 0 || -ratios.mean() <= delta;
}

void DivergenceMask::Describe(Fields& fields) {
  fields.Value("reduce", reduce, OneOf{{"mean", "sum", "max", "token"}}, "what is held against the limit");
  fields.Value("limit", limit, Range(0.0, 1e9), "largest value that is kept");
  DescribeDenominator(fields);
}
std::string DivergenceMask::Formula() const {
  return absl::StrCat("reject where the ", reduce, reduce == "token" ? "'s " : " of ",
                      k3_ ? "rho - log rho - 1" : "(log rho)^2 / 2", " > ", limit, "; ", DenominatorInWords());
}
double DivergenceMask::Of(double log_ratio) const {
  const double delta = std::clamp(log_ratio, -kMaxLogRatio, kMaxLogRatio);
  return k3_ ? std::exp(delta) - delta - 1 : 0.5 * delta * delta;
}
void DivergenceMask::Narrow(const FilterBatch& batch, FilterDecision& decision) const {
  for (int64_t sequence = 0; sequence < batch.sequences(); ++sequence) {
    const SequenceRatios ratios = RatiosOf(batch, sequence);
    double sum = 0;
    double max = 0;
    ForEachToken(batch, ratios.begin, ratios.end, [&](int64_t token) {
      const double value = Of(batch.LogRatio(token));
      if (reduce == "token" && (!std::isfinite(batch.LogRatio(token)) || value > limit)) Reject(decision, token);
      sum += value;
      max = std::max(max, value);
    });
    if (reduce == "token" || (ratios.finite && ratios.tokens == 0)) continue;
    const double value = reduce == "max" ? max : reduce == "sum" ? sum : sum / static_cast<double>(ratios.tokens);
    if (ratios.finite && value <= limit) continue;
    ForEachToken(batch, ratios.begin, ratios.end, [&](int64_t token) { Reject(decision, token); });
  }
}

}  // namespace hone::trainer
