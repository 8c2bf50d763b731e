#pragma once

// A chain of filters as the learner and the lab use it, with the mismatch figures of every step.

#include <map>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "trainer/loss/filters/filter.h"

namespace hone::trainer {

struct FilterConfig {
  rewards::Choice<Filter> filter;
};
template <class F>
void Describe(F& f, FilterConfig& c) {
  rewards::DescribeChoice(f, c.filter, "which filter");
}

struct FilterChainConfig {
  std::vector<FilterConfig> chain = {FilterConfig{}};  // MirrorPop
  bool normalise = false;
};
template <class F>
void Describe(F& f, FilterChainConfig& c) {
  f.List("chain", c.chain, "applied in order; a token dropped by one stays dropped; empty: everything is kept");
  f.Value("normalise", c.normalise, "divide the weights by their mean over the counted tokens of the batch");
}

/// kInvalidArgument: spans of unequal length, or offsets that do not cover the tokens in order.
absl::Status CheckBatch(const FilterBatch& batch);

/// The whole chain as one LossFilter. Fills the stats
///   filter/rejected_tokens     share of the masked-in tokens that give no gradient
///   filter/rejected_sequences  share of the sequences with masked-in tokens of which none is left
///   filter/ess                 effective sample size (sum w)^2 / (T sum w^2) over the masked-in tokens, in [0, 1]
///   filter/all_rejected        1 when nothing is left: the step must be skipped and counted
///   <name>/rejected_tokens     what the filter took from what those before it had left, as a share of all
///   mismatch/...               see MismatchStats
/// kInvalidArgument: CheckBatch, or a decision of another length.
LossFilter MakeChain(FilterChainConfig config);

/// Whether no masked-in token gives gradient. Such a step is skipped: nothing is divided by zero or by one.
bool NothingLeft(const FilterBatch& batch, const FilterDecision& decision);

/// Of the masked-in tokens: mismatch/mean_abs_log_ratio, /mean_k3, /max_ratio, /out_of_band (share of rho outside 0.5
/// to 2), /not_finite (share). Tokens whose delta is not finite are counted in the last and left out of the others.
std::map<std::string, double> MismatchStats(const FilterBatch& batch);

}  // namespace hone::trainer
