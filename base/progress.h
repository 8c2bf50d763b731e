#pragma once

// A live line on a terminal; plain log lines (at most one every ten seconds) when standard error is not one.

#include <memory>
#include <string>

#include "absl/strings/string_view.h"

namespace hone {

class Progress {
 public:
  /// `total` 0: unknown. One Progress at a time per process writes the line.
  explicit Progress(std::string phase, int64_t total = 0);
  ~Progress();

  /// `detail`: figures beside the bar ("reward 0.41 correct 0.72"). Thread-safe.
  void Update(int64_t done, absl::string_view detail = "");
  void Finish(absl::string_view summary = "");

 private:
  struct State;
  std::unique_ptr<State> state_;
};

/// "1m 23s", "0.8s".
std::string HumanSeconds(double seconds);

}  // namespace hone
