#include "rollout/engine/token_sampler.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <vector>

#include "absl/strings/str_cat.h"
#include "policy/model/cpu_kernels.h"

namespace hone::rollout {
namespace {

TokenDraw Greedy(const float* logits, int64_t vocab) {
  const int64_t best = std::max_element(logits, logits + vocab) - logits;
  return {static_cast<int32_t>(best), logits[best] - policy::cpu::LogProbRow(logits, vocab, 1).log_sum};
}

// The first index whose running sum of weights exceeds `target`; the last positive one when rounding ate the rest.
template <class WeightAt>
int64_t Pick(int64_t count, double target, const WeightAt& weight_at) {
  double sum = 0;
  int64_t last = -1;
  for (int64_t i = 0; i < count; ++i) {
    const double w = weight_at(i);
    if (w <= 0) continue;
    sum += w;
    last = i;
    if (sum > target) break;
  }
  return last;
}

// Ids of the tokens that top-k, top-p and min-p leave, ascending.
std::vector<int32_t> Kept(const std::vector<double>& p, const SamplingOptions& options) {
  std::vector<int32_t> ids(p.size());
  std::iota(ids.begin(), ids.end(), 0);
  // Most likely first, lower id first among equals.
  const auto before = [&](int32_t a, int32_t b) { return p[a] != p[b] ? p[a] > p[b] : a < b; };
  const bool cut = options.top_k > 0 && options.top_k < static_cast<int64_t>(ids.size());
  if (cut) std::nth_element(ids.begin(), ids.begin() + options.top_k - 1, ids.end(), before);
  if (cut) ids.resize(options.top_k);
  if (options.top_p < 1) {
    std::sort(ids.begin(), ids.end(), before);
    double total = 0;
    for (int32_t id : ids) total += p[id];
    double sum = 0;
    size_t keep = 0;
    while (keep < ids.size() && sum < options.top_p * total) sum += p[ids[keep++]];
    ids.resize(std::max<size_t>(1, keep));
  }
  if (options.min_p > 0) {
    double best = 0;
    for (int32_t id : ids) best = std::max(best, p[id]);
    std::erase_if(ids, [&](int32_t id) { return p[id] < options.min_p * best; });
  }
  std::sort(ids.begin(), ids.end());
  return ids;
}

TokenDraw Filtered(const float* logits, int64_t vocab, const policy::cpu::RowLogProb& row, float inverse,
                   const SamplingOptions& options, double uniform) {
  std::vector<double> p(vocab);
  for (int64_t i = 0; i < vocab; ++i) p[i] = std::exp(static_cast<double>(logits[i] * inverse - row.log_sum));
  const std::vector<int32_t> kept = Kept(p, options);
  double total = 0;
  for (int32_t id : kept) total += p[id];
  const int64_t at = Pick(static_cast<int64_t>(kept.size()), uniform * total, [&](int64_t i) { return p[kept[i]]; });
  if (at < 0) return {};
  return {kept[at], static_cast<float>(std::log(p[kept[at]] / total))};
}

}  // namespace

absl::Status Validate(const SamplingOptions& o) {
  const auto bad = [](const char* name, auto value, const char* range) {
    return absl::InvalidArgumentError(absl::StrCat("sampling: ", name, " = ", value, ", allowed ", range));
  };
  if (!(o.temperature >= 0 && o.temperature <= 100)) return bad("temperature", o.temperature, "[0, 100]");
  if (o.top_k < 0) return bad("top_k", o.top_k, ">= 0");
  if (!(o.top_p > 0 && o.top_p <= 1)) return bad("top_p", o.top_p, "(0, 1]");
  if (!(o.min_p >= 0 && o.min_p < 1)) return bad("min_p", o.min_p, "[0, 1)");
  if (o.max_tokens < 1) return bad("max_tokens", o.max_tokens, ">= 1");
  return absl::OkStatus();
}

TokenDraw DrawToken(const float* logits, int64_t vocab, const SamplingOptions& options, double uniform) {
  if (options.temperature == 0) {
    const TokenDraw draw = Greedy(logits, vocab);
    return std::isfinite(draw.log_prob) ? draw : TokenDraw{};
  }
  const float temperature = static_cast<float>(options.temperature), inverse = 1.0f / temperature;
  const policy::cpu::RowLogProb row = policy::cpu::LogProbRow(logits, vocab, temperature);
  if (!std::isfinite(row.log_sum)) return {};
  const bool filtered = options.top_k > 0 || options.top_p < 1 || options.min_p > 0;
  if (filtered) return Filtered(logits, vocab, row, inverse, options, uniform);
  const int64_t id = Pick(vocab, uniform, [&](int64_t i) {
    return static_cast<double>(std::exp(logits[i] * inverse - row.log_sum));
  });
  if (id < 0) return {};
  return {static_cast<int32_t>(id), logits[id] * inverse - row.log_sum};
}

}  // namespace hone::rollout
