#pragma once

// Structured log lines on standard error (or a file): time in UTC, level, component, message, then key=value fields.
//
//   Logger log = Logger::ToStderr("lane", LogLevel::kInfo).With({{"trace", request.trace_id}});
//   log.Info("judged", {{"task", task.id}, {"status", Name(verdict.status)}, {"seconds", 1.25}});
//
//   2026-11-30T13:05:18.123Z info lane: judged trace=7f3a task=softmax_rows status=OK seconds=1.25
//
// A value with spaces, quotes or control characters is quoted and escaped, so that one call is always one line.

#include <concepts>
#include <initializer_list>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"

namespace spdlog {
class logger;
}

namespace hone {

enum class LogLevel { kDebug, kInfo, kWarning, kError };
absl::string_view Name(LogLevel level);  // "debug", "info", "warning", "error"
std::optional<LogLevel> ParseLogLevel(absl::string_view name);

/// One key=value of a line.
struct LogField {
  LogField(absl::string_view key, absl::string_view value) : key(key), value(value) {}
  LogField(absl::string_view key, const std::string& value) : key(key), value(value) {}
  LogField(absl::string_view key, const char* value) : key(key), value(value) {}
  LogField(absl::string_view key, bool value) : key(key), value(value ? "true" : "false") {}
  template <class Number>
  requires(std::integral<Number> || std::floating_point<Number>) &&
      (!std::same_as<Number, bool>)LogField(absl::string_view key, Number value)
      : key(key),
  value(absl::StrCat(value)) {}

  std::string key;
  std::string value;
};

/// A cheap handle; copies write to the same place. Thread-safe.
class Logger {
 public:
  using Fields = std::initializer_list<LogField>;

  static Logger ToStderr(std::string component, LogLevel level);
  /// Appends to `path`.
  static absl::StatusOr<Logger> ToFile(const std::string& path, std::string component, LogLevel level);
  /// Writes nothing.
  static Logger Discard();

  /// The same log with fields that stand in every line.
  Logger With(Fields fields) const;
  /// The same log for another part of the program.
  Logger For(std::string component) const;

  void Debug(absl::string_view message, Fields fields = {}) const { Write(LogLevel::kDebug, message, fields); }
  void Info(absl::string_view message, Fields fields = {}) const { Write(LogLevel::kInfo, message, fields); }
  void Warning(absl::string_view message, Fields fields = {}) const { Write(LogLevel::kWarning, message, fields); }
  void Error(absl::string_view message, Fields fields = {}) const { Write(LogLevel::kError, message, fields); }

 private:
  Logger(std::shared_ptr<spdlog::logger> sink, std::string component);
  void Write(LogLevel level, absl::string_view message, Fields fields) const;

  std::shared_ptr<spdlog::logger> sink_;  // shared by all handles on one place
  std::string component_;
  std::string common_;  // " trace=7f3a", ready to append
};

}  // namespace hone
