#pragma once

// One line an event, for people and for log collectors:
//   2026-11-30T13:07:28.123Z info verdict trace=7f3a task=softmax_rows status=OK queue_s=0.002
// Values with blanks or quotes are quoted and escaped. A line is one write, so that processes may share a file.

#include <initializer_list>
#include <optional>
#include <string>
#include <utility>

#include "absl/strings/string_view.h"

namespace hone::verifier {

enum class LogLevel { kDebug, kInfo, kWarning, kError, kNothing };

std::optional<LogLevel> ParseLogLevel(absl::string_view name);  // "debug", "info", "warning", "error", "nothing"

/// Thread-safe.
class Log {
 public:
  using Fields = std::initializer_list<std::pair<absl::string_view, std::string>>;

  /// Writes what is at least `level` to the descriptor, which must outlive the log.
  Log(int fd, LogLevel level) : fd_(fd), level_(level) {}

  bool Wants(LogLevel level) const { return level >= level_ && level_ != LogLevel::kNothing; }
  void Write(LogLevel level, absl::string_view event, Fields fields) const;
  void Debug(absl::string_view event, Fields fields = {}) const { Write(LogLevel::kDebug, event, fields); }
  void Info(absl::string_view event, Fields fields = {}) const { Write(LogLevel::kInfo, event, fields); }
  void Warning(absl::string_view event, Fields fields = {}) const { Write(LogLevel::kWarning, event, fields); }
  void Error(absl::string_view event, Fields fields = {}) const { Write(LogLevel::kError, event, fields); }

 private:
  const int fd_;
  const LogLevel level_;
};

}  // namespace hone::verifier
