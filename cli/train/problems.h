#pragma once

// Where a run's tasks come from: the generator, or a collection of task files.

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/config.h"
#include "cli/train/prompter.h"
#include "rollout/sampler/random.h"
#include "verifier/client/client.h"

namespace hone::cli {

struct TaskSettings {
  std::string from = "suite";
  std::vector<std::string> allow_weak;
  double settled_share = 1;
};
template <class F>
void Describe(F& f, TaskSettings& c) {
  f.Value("from", c.from,
          "generated: the quickstart's generator; suite: the tasks that ship; else a task file, folder or JSONL");
  f.Value("allow_weak", c.allow_weak, "ids of tasks to train on although a trivial answer passes them");
  f.Value("settled_share", c.settled_share, Range(0.01, 1.0),
          "chance that a task comes in its turn although its last answers were all right or all wrong; 1: all as often");
}

/// A task with the entry point that its prompts ask for.
Problem ProblemOf(const Task& task, const Signature& signature);

/// Not thread-safe.
class ProblemSource {
 public:
  virtual ~ProblemSource() = default;
  /// The next task to train on.
  virtual absl::StatusOr<Problem> Next() = 0;
  /// How the last answers to a task that Next gave were: settled if all right or all wrong, so that nothing is learned from them.
  virtual void Report(const std::string& task_id, bool settled) = 0;
  /// kDataLoss: no such task (the retry buffer keeps ids alone).
  virtual absl::StatusOr<Problem> ById(const std::string& task_id) = 0;
  /// The tasks of a split that are listed (the generator's named ones), in order; may be none. Held-out tasks are never
  /// trained on.
  virtual absl::StatusOr<std::vector<Problem>> Listed(Split split) = 0;
  /// Everything that decides what Next gives; and back. kDataLoss: not a state of Save.
  virtual std::string Save() const = 0;
  virtual absl::Status Restore(const std::string& state) = 0;
};

/// Freshly generated programs, a share of them from the named list.
std::unique_ptr<ProblemSource> GeneratedProblems(uint64_t seed, double named_share);

/// The train tasks of a collection in a new random order each time all were given, settled ones in only a share of those
/// orders; the held-out ones for evaluation. Weak tasks are left out unless allowed. The entry point of each is asked of `client`, which is borrowed, once.
/// kInvalidArgument: no task to train on, or allow_weak names a task that is not there. Errors of LoadTasks.
absl::StatusOr<std::unique_ptr<ProblemSource>> CollectedProblems(const TaskSettings& settings, uint64_t seed,
                                                                 verifier::Client& client);

}  // namespace hone::cli
