#pragma once

// A runner that holds an artefact, with what a message to it cost before a line of the candidate's had run.
//
// Where wall time counts and others share the device, a message is surrounded by work of the judge's own: before it the cache
// is cleared and the runner woken, after it a small kernel runs. What a candidate leaves on the device after its answer, or
// does before it is asked to, delays that work.

#include <memory>

#include "absl/status/statusor.h"
#include "verifier/lane/budget.h"
#include "verifier/lane/buffers.h"
#include "verifier/runner/runner_host.h"

namespace hone::verifier {

struct MessageCosts {
  double message_ns = 0;  // by the device's clock
  double around_ns = 0;   // of the judge's work before and after it; 0 where the clock is not the wall's
};

struct OpenedRunner {
  std::unique_ptr<Runner> runner;  // null: none
  MessageCosts costs;
};

/// One message with its surroundings.
struct TimedMessage {
  RunnerReport report;
  int64_t before_ns = 0, after_ns = 0;  // the device's clock of the runner; negative: it is gone
  MessageCosts costs;
};

/// Maps a stage's table, inputs and outputs. kUnavailable: it cannot.
absl::Status MapStage(Runner& runner, Stage& stage, int outputs);

/// Has a runner make the first `calls` calls of its table, with cold caches, awake, and with its context on the device.
/// `behind_mb`: as Runner::Run takes it.
absl::StatusOr<TimedMessage> SendTimed(const Device& device, Runner& runner, int calls, Budget& budget, uint32_t behind_mb = 0);

/// Median costs of a message. The runner has a table mapped and no artefact.
absl::StatusOr<MessageCosts> MeasureCosts(const Device& device, Runner& runner);

}  // namespace hone::verifier
