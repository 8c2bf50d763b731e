#include "trainer/simulate/world.h"

#include <cmath>
#include <map>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/status_macros.h"
#include "rollout/sampler/random.h"

namespace hone::trainer {
namespace {

using rewards::Outcome;
using rollout::SplitMix;

std::string KeyOf(const Outcome& outcome) {
  const double speedup = outcome.first_baseline ? outcome.speedups[static_cast<int>(*outcome.first_baseline)].low : 0;
  return absl::StrFormat("%s %.3g %.2g", std::string(Name(outcome.status)), outcome.correct_rate, speedup);
}

Outcome Failure(VerdictStatus status, double correct_rate = 0) {
  Outcome outcome;
  outcome.status = status;
  outcome.correct_rate = correct_rate;
  return outcome;
}

Outcome Pass(double speedup) {
  Outcome outcome = Failure(VerdictStatus::kOk, 1);
  outcome.first_baseline = Baseline::kEager;
  outcome.speedups[static_cast<int>(Baseline::kEager)] = {speedup, speedup, speedup};
  return outcome;
}

/// Counts of distinct outcomes of one task.
struct Tally {
  std::vector<Outcome> candidates;
  std::vector<double> counts;
  std::map<std::string, size_t> index;

  void Add(const Outcome& outcome) {
    if (outcome.status == VerdictStatus::kInfra) return;
    const auto [found, added] = index.emplace(KeyOf(outcome), candidates.size());
    if (added) {
      candidates.push_back(outcome);
      candidates.back().samples = {};  // borrowed from the record, which goes
      counts.push_back(0);
    }
    ++counts[found->second];
  }
};

}  // namespace

absl::StatusOr<World> RecordedWorld(const std::vector<std::string>& paths, const rewards::ReadOptions& options) {
  std::map<std::string, Tally> tallies;
  HONE_RETURN_IF_ERROR(rewards::ReadGroups(paths, options, [&](rewards::LabGroup&& group) {
                         for (const rewards::EpisodeOutcomes& episode : group.outcomes) {
                           for (const Outcome& outcome : episode) tallies[group.task_id].Add(outcome);
                         }
                         return absl::OkStatus();
                       }).status());
  World world;
  for (auto& [id, tally] : tallies) {
    if (tally.candidates.size() < 2) {
      ++world.tasks_left_out;
      continue;
    }
    SimTask& task = world.tasks.emplace_back();
    task.id = id;
    task.candidates = std::move(tally.candidates);
    for (const double count : tally.counts) task.logits.push_back(std::log(count));
  }
  if (world.tasks.empty()) {
    return absl::InvalidArgumentError(absl::StrCat("no task has two distinct outcomes (", world.tasks_left_out,
                                                   " have one): there is nothing to learn from"));
  }
  return world;
}

World SyntheticWorld(int64_t tasks, uint64_t seed) {
  World world;
  SplitMix random(seed);
  for (int64_t t = 0; t < tasks; ++t) {
    SimTask& task = world.tasks.emplace_back();
    task.id = absl::StrCat("synthetic-", t);
    const bool hard = t % 4 == 0;
    const auto add = [&](const Outcome& outcome, double weight) {
      task.candidates.push_back(outcome);
      task.logits.push_back(std::log(weight * (0.5 + random.Uniform())));
    };
    const double passes = hard ? 0.001 : 0.1 + 0.3 * random.Uniform();  // probability of any pass, about
    for (const double speedup : {0.5, 0.8, 1.0, 1.3, 1.7, 2.5, 4.0}) {
      add(Pass(speedup * (0.9 + 0.2 * random.Uniform())), passes / (1 + speedup));
    }
    add(Failure(VerdictStatus::kCompile), 0.35);
    add(Failure(VerdictStatus::kCompile), 0.1);
    add(Failure(VerdictStatus::kRuntime), 0.15);
    add(Failure(VerdictStatus::kForbidden), 0.05);
    if (!hard) add(Failure(VerdictStatus::kIncorrect, 0.5), 0.1);
    add(Failure(VerdictStatus::kIncorrect), 0.25);
  }
  return world;
}

}  // namespace hone::trainer
