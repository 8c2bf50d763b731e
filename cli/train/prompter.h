#pragma once

// How a policy reads tasks and is answered: the prompts of the mechanisms, as tokens. What differs between the quickstart's
// small policy and a chat model lies behind this.

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "base/task.h"
#include "base/verdict.h"
#include "rollout/episode/driver.h"
#include "rollout/sampler/exemplar_store.h"

namespace hone::cli {

/// A task and what else a prompt is made of.
struct Problem {
  Task task;
  std::string text;  // generated tasks: the program; others: the entry point to fill
};

/// Not thread-safe.
class Prompter : public rollout::TurnEncoder {
 public:
  virtual absl::StatusOr<std::vector<int32_t>> TaskPrompt(const Problem& problem) = 0;
  /// `verdict` is of the failing `source`.
  virtual absl::StatusOr<std::vector<int32_t>> RepairPrompt(const Problem& problem, const std::string& source,
                                                            const Verdict& verdict) = 0;
  virtual absl::StatusOr<std::vector<int32_t>> ContrastPrompt(const Problem& problem, const rollout::Exemplar& slower,
                                                              const rollout::Exemplar& faster) = 0;
  /// Tokens that end a response.
  virtual std::vector<int32_t> stop_ids() const = 0;
};

}  // namespace hone::cli
