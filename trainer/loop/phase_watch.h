#pragma once

// Says what a run waits for when it waits too long: the phase, since when, how much is missing, and where each thread of the
// process is. A run that hangs on a farm, a device or a file system then leaves a reason in its log before anybody looks.

#include <chrono>
#include <functional>
#include <memory>
#include <string>

namespace hone::trainer {

struct PhaseWatchOptions {
  std::chrono::milliseconds patience = std::chrono::minutes(5);  // without a word; then again after twice as long, and so on
  std::function<void(const std::string& text)> on_stuck;         // called on the watch's thread; must not be empty
};

/// Thread-safe.
class PhaseWatch {
 public:
  explicit PhaseWatch(PhaseWatchOptions options);
  ~PhaseWatch();
  PhaseWatch(const PhaseWatch&) = delete;
  PhaseWatch& operator=(const PhaseWatch&) = delete;

  /// The run is doing this now: "step 12: 31 verdicts of turn 1". Every call is a sign of life.
  void Enter(std::string what);
  /// Nothing is expected until the next Enter.
  void Rest();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

/// A line a thread: its name, state and, where the kernel tells, what it sleeps in.
std::string ThreadsOfProcess();

}  // namespace hone::trainer
