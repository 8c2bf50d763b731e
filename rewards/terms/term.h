#pragma once

// A term scores one turn. Terms of a pipeline are summed with weights.

#include <optional>
#include <vector>

#include "rewards/outcome.h"
#include "rewards/part.h"

namespace hone::rewards {

class Term : public Part {
 public:
  /// The turn's score, finite; std::nullopt means "no sample": nothing is learned from this turn and its group shrinks.
  /// An INFRA outcome never reaches a term: the fault is ours, so it has no score by construction.
  std::optional<double> Score(const Outcome& outcome) const {
    if (outcome.status == VerdictStatus::kInfra) return std::nullopt;
    return ScoreJudged(outcome);
  }

  /// The baselines that the term reads by name: the verifier's protocol should time them.
  virtual std::vector<Baseline> NeededBaselines() const { return {}; }

  /// Whether a pass carries every timing that the term reads.
  virtual bool Timed(const Outcome& outcome) const { return true; }

  /// All terms there are. A new term adds one line to rewards/terms/registry.cc; docs/add_a_reward.md walks through it.
  static absl::Span<const Registration<Term>> Registry();

 private:
  virtual std::optional<double> ScoreJudged(const Outcome& outcome) const = 0;
};

}  // namespace hone::rewards
