#include "trainer/loss/filters/chain.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"

namespace hone::trainer {
namespace {

double Share(int64_t part, int64_t whole) {
  return whole > 0 ? static_cast<double>(part) / static_cast<double>(whole) : 0;
}

struct Census {
  int64_t tokens = 0;
  int64_t dead_tokens = 0;
  int64_t sequences = 0;
  int64_t dead_sequences = 0;
  double sum = 0;
  double squares = 0;
};

Census Count(const FilterBatch& batch, const FilterDecision& decision) {
  Census census;
  for (int64_t sequence = 0; sequence < batch.sequences(); ++sequence) {
    int64_t tokens = 0;
    int64_t dead = 0;
    ForEachToken(batch, batch.offsets[sequence], batch.offsets[sequence + 1], [&](int64_t token) {
      const double weight = decision.weight[token];
      ++tokens;
      dead += weight == 0;
      census.sum += weight;
      census.squares += weight * weight;
    });
    census.tokens += tokens;
    census.dead_tokens += dead;
    census.sequences += tokens > 0;
    census.dead_sequences += tokens > 0 && dead == tokens;
  }
  return census;
}

void NormaliseWeights(const FilterBatch& batch, FilterDecision& decision) {
  double sum = 0;
  int64_t counted = 0;
  ForEachToken(batch, 0, batch.tokens(), [&](int64_t token) {
    sum += decision.weight[token];
    counted += decision.counted[token];
  });
  if (sum <= 0 || counted == 0) return;
  const double scale = static_cast<double>(counted) / sum;
  ForEachToken(batch, 0, batch.tokens(),
               [&](int64_t token) { decision.weight[token] = static_cast<float>(decision.weight[token] * scale); });
}

absl::Status Apply(const FilterChainConfig& config, const FilterBatch& batch, FilterDecision& decision) {
  HONE_RETURN_IF_ERROR(CheckBatch(batch));
  const size_t tokens = batch.train_log_probs.size();
  if (decision.weight.size() != tokens || decision.counted.size() != tokens) {
    return absl::InvalidArgumentError(absl::StrCat("the decision has ", decision.weight.size(), " weights and ",
                                                   decision.counted.size(), " counts for ", tokens, " tokens"));
  }
  int64_t dead = Count(batch, decision).dead_tokens;
  for (const FilterConfig& item : config.chain) {
    item.filter.part->Narrow(batch, decision);
    const Census census = Count(batch, decision);
    decision.stats[absl::StrCat(item.filter.name, "/rejected_tokens")] =
        Share(census.dead_tokens - dead, census.tokens);
    dead = census.dead_tokens;
  }
  if (config.normalise) NormaliseWeights(batch, decision);
  const Census census = Count(batch, decision);
  decision.stats["filter/rejected_tokens"] = Share(census.dead_tokens, census.tokens);
  decision.stats["filter/rejected_sequences"] = Share(census.dead_sequences, census.sequences);
  decision.stats["filter/ess"] =
      census.squares > 0 ? census.sum * census.sum / (static_cast<double>(census.tokens) * census.squares) : 0;
  decision.stats["filter/all_rejected"] = NothingLeft(batch, decision);
  decision.stats.merge(MismatchStats(batch));
  return absl::OkStatus();
}

}  // namespace

absl::Status CheckBatch(const FilterBatch& batch) {
  const size_t tokens = batch.train_log_probs.size();
  if (batch.rollout_log_probs.size() != tokens || batch.mask.size() != tokens) {
    return absl::InvalidArgumentError(absl::StrCat("a batch of ", tokens, " learner log-probs has ",
                                                   batch.rollout_log_probs.size(), " of the rollout and a mask of ",
                                                   batch.mask.size()));
  }
  if (batch.offsets.empty() || batch.offsets.front() != 0 || batch.offsets.back() != static_cast<int64_t>(tokens) ||
      !std::is_sorted(batch.offsets.begin(), batch.offsets.end())) {
    return absl::InvalidArgumentError(absl::StrCat("sequence offsets do not cover the ", tokens, " tokens in order"));
  }
  if (batch.advantages.size() + 1 != batch.offsets.size()) {
    return absl::InvalidArgumentError(
        absl::StrCat(batch.advantages.size(), " advantages for ", batch.sequences(), " sequences"));
  }
  return absl::OkStatus();
}

LossFilter MakeChain(FilterChainConfig config) {
  return [config = std::move(config)](const FilterBatch& batch, FilterDecision& decision) {
    return Apply(config, batch, decision);
  };
}

bool NothingLeft(const FilterBatch& batch, const FilterDecision& decision) {
  for (int64_t t = 0; t < batch.tokens(); ++t) {
    if (batch.mask[t] != 0 && decision.weight[t] != 0) return false;
  }
  return true;
}

std::map<std::string, double> MismatchStats(const FilterBatch& batch) {
  double sum_abs = 0;
  double sum_k3 = 0;
  double max_ratio = 0;
  int64_t finite = 0;
  int64_t outside = 0;
  int64_t tokens = 0;
  ForEachToken(batch, 0, batch.tokens(), [&](int64_t t) {
    ++tokens;
    const double delta = batch.LogRatio(t);
    if (!std::isfinite(delta)) return;
    ++finite;
    const double ratio = RatioOf(delta);
    sum_abs += std::fabs(delta);
    sum_k3 += ratio - std::clamp(delta, -kMaxLogRatio, kMaxLogRatio) - 1;
    max_ratio = std::max(max_ratio, ratio);
    outside += ratio < 0.5 || ratio > 2;
  });
  const double count = static_cast<double>(std::max<int64_t>(finite, 1));
  return {{"mismatch/mean_abs_log_ratio", sum_abs / count},
          {"mismatch/mean_k3", sum_k3 / count},
          {"mismatch/max_ratio", max_ratio},
          {"mismatch/out_of_band", static_cast<double>(outside) / count},
          {"mismatch/not_finite", Share(tokens - finite, tokens)}};
}

}  // namespace hone::trainer
