#include "rewards/lab/explain.h"

#include <optional>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

namespace hone::rewards {
namespace {

struct ExampleTurn {
  const char* what;
  Outcome outcome;
};

Outcome Failed(VerdictStatus status, double correct_rate = 0) {
  Outcome outcome;
  outcome.status = status;
  outcome.correct_rate = correct_rate;
  outcome.response_tokens = 600;
  return outcome;
}

/// A pass timed against every baseline, so that any pipeline finds the one it reads.
Outcome Passed(Speedup speedup) {
  Outcome outcome = Failed(VerdictStatus::kOk, 1);
  outcome.first_baseline = Baseline::kEager;
  outcome.speedups.fill(speedup);
  outcome.coverage = 1;
  return outcome;
}

std::vector<std::vector<ExampleTurn>> ExampleGroup() {
  return {
      {{"passes at 1.8x [1.7, 1.9]", Passed({1.8, 1.7, 1.9})}},
      {{"does not compile", Failed(VerdictStatus::kCompile)}, {"passes at 1.2x [1.1, 1.3]", Passed({1.2, 1.1, 1.3})}},
      {{"60 % of the checks right", Failed(VerdictStatus::kIncorrect, 0.6)},
       {"80 % of the checks right", Failed(VerdictStatus::kIncorrect, 0.8)},
       {"crashes", Failed(VerdictStatus::kRuntime)}},
      {{"caught cheating", Failed(VerdictStatus::kCheat)}, {"passes at 0.9x [0.85, 0.95]", Passed({0.9, 0.85, 0.95})}},
      {{"our own failure (INFRA)", Failed(VerdictStatus::kInfra)}}};
}

std::string Shown(const std::optional<double>& value) { return value ? absl::StrFormat("%.4g", *value) : "none"; }

}  // namespace

std::string Explain(const Pipeline& pipeline) {
  const std::vector<std::vector<ExampleTurn>> example = ExampleGroup();
  GroupOutcomes group;
  for (const auto& episode : example) {
    EpisodeOutcomes& outcomes = group.emplace_back();
    for (const ExampleTurn& turn : episode) outcomes.push_back(turn.outcome);
  }
  const BatchCredit credit = pipeline.Score({group});
  std::string text = pipeline.InWords();
  absl::StrAppend(&text, "\nA group of ", example.size(), " episodes under this pipeline:\n");
  absl::StrAppendFormat(&text, "%-9s %-5s %-28s %9s %9s %10s\n", "episode", "turn", "what happened", "score", "reward",
                        "advantage");
  for (size_t e = 0; e < example.size(); ++e) {
    for (size_t k = 0; k < example[e].size(); ++k) {
      const TurnCredit& turn = credit.groups[0].episodes[e].turns[k];
      const std::string advantage = turn.trained() ? absl::StrFormat("%.4g", turn.advantage) : "untrained";
      absl::StrAppendFormat(&text, "%-9d %-5d %-28s %9s %9s %10s\n", e + 1, k + 1, example[e][k].what,
                            Shown(turn.score), Shown(turn.reward), advantage);
    }
  }
  return text;
}

}  // namespace hone::rewards
