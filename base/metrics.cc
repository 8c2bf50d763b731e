#include "base/metrics.h"

#include <unistd.h>
#include <array>
#include <bit>
#include <cmath>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "base/hash.h"
#include "base/status_macros.h"

namespace hone {
namespace {

template <class T>
void AppendLittleEndian(T value, std::string& out) {
  for (size_t i = 0; i < sizeof value; ++i) out += static_cast<char>(value >> (8 * i));
}

// ---- Protocol buffers by hand. Field numbers are those of tensorflow's event.proto and summary.proto:
//   Event    1 wall_time (double)  2 step (int64)  3 file_version (string)  5 summary (Summary)
//   Summary  1 value (repeated Value)          Value  1 tag (string)  2 simple_value (float)

enum WireType { kVarint = 0, kFixed64 = 1, kBytes = 2, kFixed32 = 5 };

void AppendVarint(uint64_t value, std::string& out) {
  for (; value >= 0x80; value >>= 7) out += static_cast<char>(value | 0x80);
  out += static_cast<char>(value);
}
void AppendTag(int field, WireType type, std::string& out) {
  AppendVarint(static_cast<uint64_t>(field << 3 | type), out);
}
void AppendBytes(int field, absl::string_view bytes, std::string& out) {
  AppendTag(field, kBytes, out);
  AppendVarint(bytes.size(), out);
  absl::StrAppend(&out, bytes);
}
void AppendDouble(int field, double value, std::string& out) {
  AppendTag(field, kFixed64, out);
  AppendLittleEndian(std::bit_cast<uint64_t>(value), out);
}
void AppendFloat(int field, float value, std::string& out) {
  AppendTag(field, kFixed32, out);
  AppendLittleEndian(std::bit_cast<uint32_t>(value), out);
}

std::string VersionEvent(double wall_time_s) {
  std::string event;
  AppendDouble(1, wall_time_s, event);
  AppendBytes(3, "brain.Event:2", event);
  return event;
}

std::string ScalarEvent(double wall_time_s, int64_t step, const std::map<std::string, double>& values) {
  std::string summary;
  for (const auto& [name, value] : values) {
    if (!std::isfinite(value)) continue;
    std::string item;
    AppendBytes(1, name, item);
    AppendFloat(2, static_cast<float>(value), item);
    AppendBytes(1, item, summary);
  }
  std::string event;
  AppendDouble(1, wall_time_s, event);
  AppendTag(2, kVarint, event);
  AppendVarint(static_cast<uint64_t>(step), event);
  AppendBytes(5, summary, event);
  return event;
}

/// The frame of TFRecord files: length, its masked CRC, bytes, their masked CRC.
std::string Record(absl::string_view bytes) {
  const auto masked = [](absl::string_view data) {
    const uint32_t crc = Crc32c(data);
    return ((crc >> 15) | (crc << 17)) + 0xA282EAD8u;
  };
  std::string record;
  AppendLittleEndian(uint64_t{bytes.size()}, record);
  AppendLittleEndian(masked(record), record);
  absl::StrAppend(&record, bytes);
  AppendLittleEndian(masked(bytes), record);
  return record;
}

std::string JsonLine(double wall_time_s, int64_t step, const std::map<std::string, double>& values) {
  nlohmann::ordered_json json = {{"step", step}, {"time", wall_time_s}};
  for (const auto& [name, value] : values) {
    json[name] = std::isfinite(value) ? nlohmann::ordered_json(value) : nlohmann::ordered_json(nullptr);
  }
  return json.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + "\n";
}

std::string HostName() {
  std::array<char, 256> name = {};
  return gethostname(name.data(), name.size() - 1) == 0 ? name.data() : "host";
}

}  // namespace

MetricsWriter::MetricsWriter(AppendFile lines, AppendFile events, const Clock& clock)
    : lines_(std::move(lines)), events_(std::move(events)), clock_(clock) {}

absl::StatusOr<std::unique_ptr<MetricsWriter>> MetricsWriter::Create(const std::string& folder, const Clock& clock) {
  HONE_RETURN_IF_ERROR(MakeFolders(folder));
  const absl::Time now = clock.Now();
  HONE_ASSIGN_OR_RETURN(AppendFile lines, AppendFile::Open(absl::StrCat(folder, "/metrics.jsonl")));
  HONE_ASSIGN_OR_RETURN(AppendFile events,
                        AppendFile::Open(absl::StrCat(folder, "/events.out.tfevents.", absl::ToUnixSeconds(now), ".",
                                                      HostName(), ".", getpid())));
  if (events.size() == 0) HONE_RETURN_IF_ERROR(events.Append(Record(VersionEvent(absl::ToUnixMicros(now) * 1e-6))));
  return std::unique_ptr<MetricsWriter>(new MetricsWriter(std::move(lines), std::move(events), clock));
}

absl::Status MetricsWriter::Write(int64_t step, const std::map<std::string, double>& values) {
  std::map<std::string, double> record = values;
  for (const auto& [name, value] : values) not_finite_ += std::isfinite(value) ? 0 : 1;
  if (not_finite_ > 0) record["metrics/not_finite"] = static_cast<double>(not_finite_);
  if (also_) also_(step, record);
  const double wall_time_s = static_cast<double>(absl::ToUnixMicros(clock_.Now())) * 1e-6;
  HONE_RETURN_IF_ERROR(lines_.Append(JsonLine(wall_time_s, step, record)));
  return events_.Append(Record(ScalarEvent(wall_time_s, step, record)));
}

absl::Status MetricsWriter::Flush() {
  HONE_RETURN_IF_ERROR(lines_.Sync());
  return events_.Sync();
}

}  // namespace hone
