#pragma once

// Off-policy filters: which tokens of a batch may teach, judged by how far the learner's log-probabilities are from
// those the rollout engine sampled with. Composed in YAML:
//
//   filters:
//     - {name: mirrorpop, delta: 0.05}
//     - {name: tis, high: 2}
//
// Throughout: delta_t = log pi_train,old - log pi_rollout of token t (positive: the learner likes it better),
// rho_t = exp(delta_t) with delta_t clamped to +-20, T = masked-in tokens of a sequence. Tokens outside the mask are
// never read, and never changed.

#include <cmath>
#include <cstdint>
#include <string>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "rewards/part.h"
#include "trainer/loss/filter.h"

namespace hone::trainer {

using rewards::Fields;

class Filter : public rewards::Part {
 public:
  /// Narrows `decision`; `batch` has been checked. A delta that is not finite rejects its token or sequence.
  virtual void Narrow(const FilterBatch& batch, FilterDecision& decision) const = 0;

  static absl::Span<const rewards::Registration<Filter>> Registry();

 protected:
  explicit Filter(bool shrink) : shrink_(shrink) {}
  /// Adds the parameter `denominator`: keep (a rejected token still counts in the loss denominator) or shrink.
  void DescribeDenominator(Fields& fields);
  std::string DenominatorInWords() const;

  /// The token gives no gradient, and leaves the denominator where the filter shrinks it.
  void Reject(FilterDecision& decision, int64_t token) const;
  /// Multiplies the token's weight.
  static void Weigh(FilterDecision& decision, int64_t token, double factor);

 private:
  bool shrink_;
};

inline constexpr double kMaxLogRatio = 20;  // as verl clamps it

/// Masked-in tokens of one sequence, summed up.
struct SequenceRatios {
  int64_t begin = 0;
  int64_t end = 0;     // tokens [begin, end)
  int64_t tokens = 0;  // T
  bool finite = true;  // every delta is finite
  double sum = 0;      // of delta
  double sum_abs = 0;  // of |delta|
  double min = 0;      // of delta
  double mean() const { return tokens > 0 ? sum / static_cast<double>(tokens) : 0; }
  double mean_abs() const { return tokens > 0 ? sum_abs / static_cast<double>(tokens) : 0; }
};
SequenceRatios RatiosOf(const FilterBatch& batch, int64_t sequence);

/// exp(delta) with delta clamped to +-20.
double RatioOf(double log_ratio);

/// Calls `visit(token)` for the masked-in tokens [begin, end).
void ForEachToken(const FilterBatch& batch, int64_t begin, int64_t end, absl::FunctionRef<void(int64_t)> visit);

}  // namespace hone::trainer
