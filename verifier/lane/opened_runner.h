#pragma once

// A runner that holds an artefact, with what a message to it cost before a line of the candidate's had run.

#include <memory>

#include "absl/status/statusor.h"
#include "base/steady_time.h"
#include "verifier/lane/buffers.h"
#include "verifier/runner/runner_host.h"

namespace hone::verifier {

struct OpenedRunner {
  std::unique_ptr<Runner> runner;  // null: none
  double overhead_ns = 0;          // of one message
};

/// Maps a stage's table, inputs and outputs. kUnavailable: it cannot.
absl::Status MapStage(Runner& runner, Stage& stage, int outputs);

/// Makes a runner of a device that others share ready for a timed message: awake, and its context on the device. Nothing
/// where the clock stands still while it waits.
absl::Status Wake(const Device& device, Runner& runner, SteadyTime deadline);

/// Median cost of a message to a runner that is awake, by the device's clock. The runner has a table mapped and no artefact.
absl::StatusOr<double> MeasureOverhead(const Device& device, Runner& runner);

}  // namespace hone::verifier
