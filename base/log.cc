#include "base/log.h"

#include <spdlog/logger.h>
#include <spdlog/pattern_formatter.h>
#include <spdlog/sinks/basic_file_sink.h>
#include <spdlog/sinks/null_sink.h>
#include <spdlog/sinks/stdout_sinks.h>

#include "absl/status/status.h"
#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "base/names.h"
#include "base/one_line.h"
#include "base/strings.h"

namespace hone {
namespace {

constexpr NameTable<LogLevel, 4> kNames = {{{LogLevel::kDebug, "debug"},
                                            {LogLevel::kInfo, "info"},
                                            {LogLevel::kWarning, "warning"},
                                            {LogLevel::kError, "error"}}};

spdlog::level::level_enum SpdLevel(LogLevel level) {
  switch (level) {
    case LogLevel::kDebug:
      return spdlog::level::debug;
    case LogLevel::kInfo:
      return spdlog::level::info;
    case LogLevel::kWarning:
      return spdlog::level::warn;
    case LogLevel::kError:
      return spdlog::level::err;
  }
  HONE_CHECK(!"unknown log level");
}

std::shared_ptr<spdlog::logger> MakeSpdLogger(std::shared_ptr<spdlog::sinks::sink> sink, LogLevel level) {
  auto logger = std::make_shared<spdlog::logger>("hone", std::move(sink));
  logger->set_formatter(
      std::make_unique<spdlog::pattern_formatter>("%Y-%m-%dT%H:%M:%S.%eZ %l %v", spdlog::pattern_time_type::utc));
  logger->set_level(SpdLevel(level));
  logger->flush_on(spdlog::level::trace);  // a line is out before the next statement, which may be a crash
  return logger;
}

bool NeedsQuotes(absl::string_view text) {
  for (const char c : text) {
    if (absl::ascii_isspace(c) || absl::ascii_iscntrl(c) || c == '"' || c == '=') return true;
  }
  return text.empty();
}

std::string Quoted(absl::string_view text) { return absl::StrCat("\"", absl::Utf8SafeCEscape(text), "\""); }

void AppendFields(Logger::Fields fields, std::string& line) {
  for (const LogField& field : fields) {
    absl::StrAppend(&line, " ", field.key, "=", NeedsQuotes(field.value) ? Quoted(field.value) : field.value);
  }
}

}  // namespace

absl::string_view Name(LogLevel level) { return NameIn(kNames, level); }
std::optional<LogLevel> ParseLogLevel(absl::string_view name) { return ParseIn(kNames, name); }

Logger::Logger(std::shared_ptr<spdlog::logger> sink, std::string component)
    : sink_(std::move(sink)), component_(std::move(component)) {}

Logger Logger::ToStderr(std::string component, LogLevel level) {
  return Logger(MakeSpdLogger(std::make_shared<spdlog::sinks::stderr_sink_mt>(), level), std::move(component));
}

absl::StatusOr<Logger> Logger::ToFile(const std::string& path, std::string component, LogLevel level) {
  try {
    return Logger(MakeSpdLogger(std::make_shared<spdlog::sinks::basic_file_sink_mt>(path), level),
                  std::move(component));
  } catch (const spdlog::spdlog_ex& error) {
    return absl::UnavailableError(absl::StrCat("log file ", path, ": ", error.what()));
  }
}

Logger Logger::Discard() {
  return Logger(MakeSpdLogger(std::make_shared<spdlog::sinks::null_sink_mt>(), LogLevel::kError), "");
}

Logger Logger::With(Fields fields) const {
  Logger logger = *this;
  AppendFields(fields, logger.common_);
  return logger;
}

Logger Logger::For(std::string component) const {
  Logger logger = *this;
  logger.component_ = std::move(component);
  return logger;
}

void Logger::Write(LogLevel level, absl::string_view message, Fields fields) const {
  if (!sink_->should_log(SpdLevel(level))) return;
  std::string line = absl::StrCat(component_, ": ", OneLine(message), common_);
  AppendFields(fields, line);
  sink_->log(SpdLevel(level), spdlog::string_view_t(line.data(), line.size()));
}

}  // namespace hone
