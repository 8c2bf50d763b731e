#include "rewards/turns/primeecho.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace hone::rewards {

void PrimeEcho::Describe(Fields& fields) {
  fields.Value("alpha", alpha, Range(0.0, 1.0), "share of the first turn's score; the rest is the best turn's");
  fields.Value("early_bonus", early_bonus, Range(0.0, 100.0), "added when the first pass is at turn 1, 2, ...");
}

std::string PrimeEcho::Formula() const {
  return absl::StrCat("R = ", alpha, " * s_1 + ", 1 - alpha, " * max s_k + bonus (", absl::StrJoin(early_bonus, ", "),
                      " for a first pass at turn 1, 2, ...); only the first turn's tokens are trained");
}

void PrimeEcho::Credit(absl::Span<const ScoredTurn> turns, absl::Span<std::optional<double>> rewards) const {
  if (turns.empty()) return;
  double best = turns[0].score.value_or(0);
  double bonus = 0;
  bool passed = false;
  for (size_t k = 0; k < turns.size(); ++k) {
    if (!turns[k].score) return;
    best = std::max(best, *turns[k].score);
    if (turns[k].passed && !passed) {
      passed = true;
      bonus = k < early_bonus.size() ? early_bonus[k] : 0;
    }
  }
  rewards[0] = alpha * *turns[0].score + (1 - alpha) * best + bonus;
}

}  // namespace hone::rewards
