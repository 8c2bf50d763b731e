#pragma once

// A live line on a terminal; plain log lines (at most one every ten seconds) when standard error is not one.
//
//   rl 12/100 [##------------------] 31s left, reward 0.41 correct 0.72

#include <cstdint>
#include <cstdio>
#include <memory>
#include <optional>
#include <string>

#include "absl/strings/string_view.h"
#include "base/clock.h"

namespace hone {

struct ProgressOptions {
  std::FILE* stream = stderr;
  std::optional<bool> live;      // default: whether the stream is a terminal that can be rewritten
  int width = 0;                 // columns of the live line; 0: the terminal's
  const Clock* clock = nullptr;  // default: the real one; else it outlives the progress
};

/// Thread-safe. One Progress at a time writes to a terminal.
class Progress {
 public:
  /// `total` 0: unknown.
  explicit Progress(std::string phase, int64_t total = 0, ProgressOptions options = {});
  ~Progress();
  Progress(Progress&&) = delete;
  Progress& operator=(Progress&&) = delete;

  /// `detail`: figures beside the bar ("reward 0.41 correct 0.72").
  void Update(int64_t done, absl::string_view detail = "");
  /// Replaces the line by a last one with the time taken. Without it, the destructor leaves the last state standing.
  void Finish(absl::string_view summary = "");

 private:
  struct State;
  std::unique_ptr<State> state_;
};

/// "0.8s", "12s", "1m 23s", "2h 05m", "3d 04h".
std::string HumanSeconds(double seconds);

}  // namespace hone
