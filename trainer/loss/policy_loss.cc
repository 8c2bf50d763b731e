#include "trainer/loss/policy_loss.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "cmake/torch_pch.h"

namespace hone::trainer {
namespace {

using at::Tensor;

constexpr double kMaxLogRatio = 20;

// [tokens]: every token gets the mean of `values` over its sequence's live tokens, with gradients.
Tensor SequenceMeans(const Tensor& values, const Tensor& live, const std::vector<int64_t>& offsets) {
  const int64_t sequences = static_cast<int64_t>(offsets.size()) - 1;
  std::vector<int64_t> owner(values.size(0));
  for (int64_t s = 0; s < sequences; ++s) std::fill(owner.begin() + offsets[s], owner.begin() + offsets[s + 1], s);
  const Tensor index = at::tensor(owner, at::kLong).to(values.device());
  const Tensor zeros = at::zeros({sequences}, values.options().requires_grad(false));
  const Tensor counts = zeros.index_add(0, index, live.to(values.scalar_type())).clamp_min(1);
  return (zeros.index_add(0, index, values) / counts).index_select(0, index);
}

// [tokens] log r. Tokens without weight are 0 before any arithmetic: infinity times zero is not zero.
Tensor LogRatio(const PolicyLossInput& input, const Tensor& live, const PolicyLossOptions& options) {
  const Tensor zeros = at::zeros_like(input.old_log_probs);
  const Tensor own = at::where(live, input.log_probs - input.old_log_probs, zeros);
  const bool whole = options.objective == PolicyObjective::kSequenceRatio;
  return (whole ? SequenceMeans(own, live, input.offsets) : own).clamp(-kMaxLogRatio, kMaxLogRatio);
}

struct Terms {
  Tensor loss;     // [tokens] to be minimised
  Tensor clipped;  // [tokens] bool: the clip decided
};

Terms ClippedTerms(const Tensor& ratio, const Tensor& advantages, const PolicyLossOptions& options) {
  const Tensor plain = -advantages * ratio;
  const Tensor bent = -advantages * ratio.clamp(1 - options.eps_low, 1 + options.eps_high);
  Tensor loss = at::maximum(plain, bent);
  const Tensor clipped = bent.gt(plain);
  if (options.dual_clip > 0) {
    const Tensor limit = -advantages * options.dual_clip;
    loss = at::where(advantages.lt(0), at::minimum(loss, limit), loss);
  }
  return {loss, clipped};
}

Terms CispoTerms(const PolicyLossInput& input, const Tensor& ratio, const PolicyLossOptions& options) {
  const Tensor weight = ratio.detach().clamp(1 - options.eps_low, 1 + options.eps_high);
  return {-weight * input.advantages * input.log_probs, weight.ne(ratio.detach())};
}

Tensor KlTerm(const Tensor& log_probs, const Tensor& reference, KlEstimator estimator) {
  const Tensor d = (reference - log_probs).clamp(-kMaxLogRatio, kMaxLogRatio);
  switch (estimator) {
    case KlEstimator::kK1: return -d;
    case KlEstimator::kK2: return d.square() / 2;
    case KlEstimator::kK3: break;
  }
  return d.exp() - d - 1;
}

// Named sums, fetched from the device in one go.
class Sums {
 public:
  void Add(const char* name, const Tensor& terms) {
    names_.push_back(name);
    totals_.push_back(terms.detach().to(at::kDouble).sum());
  }
  std::map<std::string, double> Fetch() const {
    const Tensor values = at::stack(totals_).cpu();
    std::map<std::string, double> out;
    for (size_t i = 0; i < names_.size(); ++i) out[names_[i]] = values.const_data_ptr<double>()[i];
    return out;
  }

 private:
  std::vector<const char*> names_;
  std::vector<Tensor> totals_;
};

}  // namespace

absl::Status Validate(const PolicyLossOptions& o) {
  const auto bad = [](const char* name, double value, const char* range) {
    return absl::InvalidArgumentError(absl::StrCat("policy loss: ", name, " = ", value, ", allowed ", range));
  };
  if (!(o.eps_low >= 0 && o.eps_low <= 1)) return bad("eps_low", o.eps_low, "[0, 1]");
  if (!(o.eps_high >= 0)) return bad("eps_high", o.eps_high, ">= 0");
  if (o.dual_clip != 0 && !(o.dual_clip > 1)) return bad("dual_clip", o.dual_clip, "0 or > 1");
  if (!(o.kl_coefficient >= 0)) return bad("kl_coefficient", o.kl_coefficient, ">= 0");
  if (!(o.entropy_coefficient >= 0)) return bad("entropy_coefficient", o.entropy_coefficient, ">= 0");
  if (o.aggregation == Aggregation::kConstantLength && !(o.constant_length > 0)) {
    return bad("constant_length", o.constant_length, "> 0 with this aggregation");
  }
  return absl::OkStatus();
}

namespace {

std::vector<int64_t> CountedOfEach(const std::vector<uint8_t>& counted, const std::vector<int64_t>& offsets) {
  std::vector<int64_t> out;
  for (size_t s = 0; s + 1 < offsets.size(); ++s) {
    out.push_back(std::count(counted.begin() + offsets[s], counted.begin() + offsets[s + 1], uint8_t{1}));
  }
  return out;
}

}  // namespace

BatchTotals CountTotals(const std::vector<uint8_t>& counted, const std::vector<int64_t>& offsets) {
  BatchTotals totals;
  for (int64_t tokens : CountedOfEach(counted, offsets)) {
    totals.tokens += static_cast<double>(tokens);
    totals.sequences += tokens > 0 ? 1 : 0;
  }
  return totals;
}

std::vector<double> TokenCoefficients(const std::vector<uint8_t>& counted, const std::vector<int64_t>& offsets,
                                      Aggregation aggregation, double constant_length, const BatchTotals& totals) {
  std::vector<double> out(counted.size(), 0.0);
  const std::vector<int64_t> per_sequence = CountedOfEach(counted, offsets);
  for (size_t s = 0; s + 1 < offsets.size(); ++s) {
    if (per_sequence[s] == 0) continue;
    double share = 0;
    switch (aggregation) {
      case Aggregation::kTokenMean: share = 1.0 / totals.tokens; break;
      case Aggregation::kSequenceMean: share = 1.0 / (totals.sequences * static_cast<double>(per_sequence[s])); break;
      case Aggregation::kConstantLength: share = 1.0 / (totals.sequences * constant_length); break;
    }
    std::fill(out.begin() + offsets[s], out.begin() + offsets[s + 1], share);
  }
  return out;
}

PolicyLossOutput PolicyLoss(const PolicyLossInput& input, const PolicyLossOptions& options) {
  const Tensor live = input.weights.ne(0);
  const Tensor log_ratio = LogRatio(input, live, options);
  const Tensor ratio = log_ratio.exp();
  const Terms terms = options.objective == PolicyObjective::kCispo ? CispoTerms(input, ratio, options)
                                                                    : ClippedTerms(ratio, input.advantages, options);
  const Tensor policy = (at::where(live, terms.loss, at::zeros_like(terms.loss)) * input.weights * input.coefficients).sum();
  PolicyLossOutput out{policy, {}};
  Sums sums;
  sums.Add("clipped", terms.clipped.logical_and(live));
  sums.Add("ratio", ratio);
  sums.Add("abs_log_ratio", log_ratio.abs());
  sums.Add("policy_loss", policy);
  if (input.reference_log_probs.defined()) {
    const Tensor kl = KlTerm(input.log_probs, input.reference_log_probs, options.kl_estimator);
    sums.Add("kl", kl);
    if (options.kl_coefficient > 0) out.loss = out.loss + options.kl_coefficient * (kl * input.coefficients).sum();
  }
  if (input.entropy.defined()) {
    sums.Add("entropy", input.entropy);
    if (options.entropy_coefficient > 0) {
      out.loss = out.loss - options.entropy_coefficient * (input.entropy * input.coefficients).sum();
    }
  }
  out.sums = sums.Fetch();
  out.sums["tokens"] = static_cast<double>(input.log_probs.size(0));
  return out;
}

Tensor WeightedNegativeLogLikelihood(const Tensor& log_probs, const Tensor& coefficients) {
  return -(log_probs * coefficients).sum();
}

}  // namespace hone::trainer
