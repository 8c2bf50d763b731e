#pragma once

// The supervised phase's endless supply: each demonstration is drawn once and never again.

#include <cstdint>

#include "absl/status/statusor.h"
#include "cli/quickstart/config.h"
#include "cli/train/program_language.h"
#include "rollout/sampler/generator.h"
#include "rollout/sampler/random.h"
#include "trainer/data/sequence.h"

namespace hone::cli {

/// Not thread-safe; borrows both arguments.
class Demonstrations {
 public:
  Demonstrations(const QuickstartSft& config, const ProgramLanguage& language, uint64_t seed);

  /// An answer to a task, to a failing kernel (repair_share), or to two kernels of different speed (contrast_share); the
  /// loss is on the answer alone.
  absl::StatusOr<trainer::TrainSequence> Next();

 private:
  absl::StatusOr<trainer::TrainSequence> Plain();
  absl::StatusOr<trainer::TrainSequence> Repair();
  absl::StatusOr<trainer::TrainSequence> Contrast();
  rollout::Demonstration Right(const rollout::Program& program);

  const QuickstartSft& config_;
  const ProgramLanguage& language_;
  rollout::Generator generator_;
  rollout::SplitMix random_;
};

}  // namespace hone::cli
