#include "rewards/turns/single.h"

#include <algorithm>

#include "absl/strings/str_cat.h"

namespace hone::rewards {

void SingleScore::Describe(Fields& fields) {
  fields.Value("take", take, OneOf{{"best", "last", "first"}}, "whose score counts");
  fields.Value("train", train, OneOf{{"all", "first"}}, "which turns' tokens are trained");
}

std::string SingleScore::Formula() const {
  return absl::StrCat("R = the ", take, " turn's score, ",
                      train == "all" ? "given to every turn" : "given to the first turn alone");
}

void SingleScore::Credit(absl::Span<const ScoredTurn> turns, absl::Span<std::optional<double>> rewards) const {
  if (turns.empty()) return;
  const absl::Span<const ScoredTurn> read = take == "first" ? turns.subspan(0, 1) : turns;
  double best = read[0].score.value_or(0);
  for (const ScoredTurn& turn : read) {
    if (!turn.score) return;
    best = std::max(best, *turn.score);
  }
  const double reward = take == "best" ? best : *read.back().score;
  const size_t trained = train == "all" ? turns.size() : 1;
  for (size_t k = 0; k < trained; ++k) {
    if (turns[k].score) rewards[k] = reward;
  }
}

}  // namespace hone::rewards
