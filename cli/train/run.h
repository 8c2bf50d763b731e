#pragma once

// One `hone train` run in one folder: config.yaml, policy/ (an HF folder, at the end with the trained weights), report.html
// and the files of the phases (cli/train/phases.h). Where an adapter is trained, adapter/ holds it in PEFT's format, as of the
// newest checkpoint, whenever the run ends or is killed, and policy/ has no weights: those are the starting model's.

#include <functional>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "cli/train/config.h"

namespace hone::cli {

class TrainRun {
 public:
  /// Loads what is trained and makes the folder. Errors of LoadStart and RunFolder::Create; on an error of the former
  /// nothing is written. kInvalidArgument: policy.prompts is not for this policy.
  /// `on_phase` hears what the run is doing, from any thread: for tests that end it there.
  static absl::StatusOr<std::unique_ptr<TrainRun>> Create(const TrainConfig& config, const std::string& folder, bool resume,
                                                          std::function<void(const std::string& what)> on_phase = {});
  ~TrainRun();

  /// All phases. False: rl.max_seconds were over. kCancelled: interrupted. The folder can be resumed after both.
  absl::StatusOr<bool> Run();

 private:
  struct State;
  explicit TrainRun(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace hone::cli
