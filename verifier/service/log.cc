#include "verifier/service/log.h"

#include <unistd.h>

#include <array>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"

namespace hone::verifier {
namespace {

constexpr std::array<absl::string_view, 5> kNames = {"debug", "info", "warning", "error", "nothing"};

void AppendValue(std::string& line, const std::string& value) {
  const bool plain = !value.empty() && value.find_first_of(" \"=\\\n\r\t") == std::string::npos;
  if (plain) {
    line += value;
  } else {
    absl::StrAppend(&line, "\"", absl::Utf8SafeCEscape(value), "\"");
  }
}

}  // namespace

std::optional<LogLevel> ParseLogLevel(absl::string_view name) {
  for (size_t i = 0; i < kNames.size(); ++i) {
    if (kNames[i] == name) return static_cast<LogLevel>(i);
  }
  return std::nullopt;
}

void Log::Write(LogLevel level, absl::string_view event, Fields fields) const {
  if (!Wants(level)) return;
  std::string line = absl::FormatTime("%Y-%m-%dT%H:%M:%E3SZ ", absl::Now(), absl::UTCTimeZone());
  absl::StrAppend(&line, kNames[static_cast<size_t>(level)], " ", event);
  for (const auto& [key, value] : fields) {
    if (value.empty()) continue;
    absl::StrAppend(&line, " ", key, "=");
    AppendValue(line, value);
  }
  line += '\n';
  // A log that cannot be written is not worth failing a verdict for.
  [[maybe_unused]] const ssize_t written = write(fd_, line.data(), line.size());
}

}  // namespace hone::verifier
