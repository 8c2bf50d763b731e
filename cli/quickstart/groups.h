#pragma once

// The quickstart's rollouts: which prompts a step gets, and what its buffers learn from the groups that come back.

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "cli/quickstart/config.h"
#include "cli/quickstart/language.h"
#include "rollout/engine/engine.h"
#include "rollout/episode/driver.h"
#include "rollout/sampler/exemplar_store.h"
#include "rollout/sampler/generator.h"
#include "rollout/sampler/random.h"
#include "rollout/sampler/retry_buffer.h"
#include "trainer/loop/rl_loop.h"
#include "verifier/client/client.h"

namespace hone::cli {

/// Borrows everything it is made of. Not thread-safe.
class QuickstartGroups : public trainer::GroupSource {
 public:
  struct Parts {
    const QuickstartConfig& config;
    QuickstartLanguage& language;
    rollout::Engine& engine;
    verifier::Client& client;
    rollout::ExemplarStore* exemplars;  // null: none
    Protocol protocol;
  };
  explicit QuickstartGroups(Parts parts);

  absl::StatusOr<std::vector<Group>> Collect(int64_t step, trainer::StepMetrics& metrics) override;

  /// Generator, retry buffer, draws, and a mark of the exemplar store.
  absl::StatusOr<std::string> Save() override;
  absl::Status Restore(const std::string& state) override;

 private:
  struct Slot {
    rollout::GroupRequest request;
    std::optional<int64_t> retry_id;
  };
  absl::StatusOr<Slot> NextSlot(int64_t step, int64_t index);
  absl::StatusOr<std::vector<int32_t>> PromptFor(const rollout::GeneratedTask& task);
  absl::Status Learn(const std::vector<Slot>& slots, const std::vector<Group>& groups, int64_t step);
  absl::Status OfferExemplars(const Group& group);
  rollout::GeneratorOptions Options() const;

  Parts parts_;
  rollout::Generator generator_;
  rollout::RetryBuffer retry_;
  rollout::SplitMix random_;
  int64_t contrast_prompts_ = 0;
};

/// Where a phase's sampling starts: phases never share draws.
uint64_t SamplingSeed(int64_t seed, int64_t step);

}  // namespace hone::cli
