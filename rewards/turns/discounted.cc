#include "rewards/turns/discounted.h"

#include "absl/strings/str_cat.h"

namespace hone::rewards {

void DiscountedReturn::Describe(Fields& fields) {
  fields.Value("gamma", gamma, Range(0.0, 1.0), "discount of each later turn");
}

std::string DiscountedReturn::Formula() const {
  return absl::StrCat("G_k = s_k + ", gamma, " * G_(k+1); every turn's tokens are trained on its own G_k");
}

void DiscountedReturn::Credit(absl::Span<const ScoredTurn> turns, absl::Span<std::optional<double>> rewards) const {
  double later = 0;
  for (size_t k = turns.size(); k-- > 0;) {
    if (!turns[k].score) return;
    later = *turns[k].score + gamma * later;
    rewards[k] = later;
  }
}

}  // namespace hone::rewards
