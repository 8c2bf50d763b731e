#pragma once

// Ends a sample at a text rather than at an id. Text comes in pieces as tokens are decoded; a stop string may begin in
// one and end in another, so that what could still become one is held back.

#include <string>
#include <vector>

#include "absl/strings/string_view.h"

namespace hone::rollout {

/// One sample. Not thread-safe.
class StopStrings {
 public:
  /// Empty strings are ignored.
  explicit StopStrings(std::vector<std::string> stops);

  /// The next text; returns what of the text so far is certain to come before any stop string.
  std::string Push(absl::string_view text);
  /// What was held back, when no more text comes; nothing once a stop string was found.
  std::string Finish();
  /// The stop string has been seen whole: the sample's text ends before it.
  bool found() const { return found_; }

 private:
  std::vector<std::string> stops_;
  std::string held_;
  bool found_ = false;
};

}  // namespace hone::rollout
