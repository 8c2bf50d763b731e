#pragma once

// A journal's line into a LabGroup, at the speed of the disk: token ids, log-probs and texts are skipped, not built.

#include <memory>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "rewards/lab/records.h"

namespace hone::rewards {

/// Bytes that must be readable after a line.
inline constexpr size_t kLinePadding = 64;

/// One thread at a time.
class JournalLineParser {
 public:
  JournalLineParser();
  ~JournalLineParser();

  /// `line` is followed by kLinePadding readable bytes. Gives what OutcomesOf(GroupFromJson(line)) would.
  /// kInvalidArgument: names the field, as GroupFromJson does.
  absl::Status Parse(absl::string_view line, LabGroup& group);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace hone::rewards
