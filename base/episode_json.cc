// JSON of episodes and verdicts. Each struct's fields are listed once, for reading and for writing.

#include <array>
#include <charconv>
#include <cmath>
#include <concepts>
#include <limits>
#include <nlohmann/json.hpp>
#include <type_traits>

#include "absl/strings/str_cat.h"
#include "base/journal.h"
#include "base/status_macros.h"

namespace hone {
namespace {

using Json = nlohmann::ordered_json;

// ---- The fields. ----

/// T is S or const S.
template <class T, class S>
concept Like = std::same_as<std::remove_const_t<T>, S>;

template <class V>
void Fields(V& visit, Like<Mismatch> auto& m) {
  visit("output", m.output);
  visit("index", m.index);
  visit("got", m.got);
  visit("want", m.want);
  visit("error_in_tolerances", m.error_in_tolerances);
  visit("shape", m.shape);
  visit("diagnosis", m.diagnosis);
}

template <class V>
void Fields(V& visit, Like<RuleHit> auto& r) {
  visit("rule", r.rule);
  visit("reject", r.reject);
  visit("evidence", r.evidence);
}

template <class V>
void Fields(V& visit, Like<Estimate> auto& e) {
  visit("median", e.median);
  visit("low", e.low);
  visit("high", e.high);
  visit("samples", e.samples);
}

template <class V>
void Fields(V& visit, Like<Timing> auto& t) {
  visit("baseline", t.baseline);
  visit("speedup", t.speedup);
  visit("candidate_ns", t.candidate_ns);
  visit("baseline_ns", t.baseline_ns);
  visit("calls_per_round", t.calls_per_round);
  visit("emulated", t.emulated);
  visit("samples", t.samples);
}

template <class V>
void Fields(V& visit, Like<KernelProfile> auto& k) {
  visit("kernel", k.kernel);
  visit("launches", k.launches);
  visit("time_ns", k.time_ns);
  visit("share", k.share);
  visit("occupancy", k.occupancy);
  visit("bytes", k.bytes);
  visit("flop", k.flop);
  visit("roofline", k.roofline);
}

template <class V>
void Fields(V& visit, Like<PhaseSeconds> auto& s) {
  visit("queue", s.queue);
  visit("build", s.build);
  visit("check", s.check);
  visit("time", s.time);
  visit("lane_overhead", s.lane_overhead);
}

template <class V>
void Fields(V& visit, Like<Verdict> auto& v) {
  visit("status", v.status);
  visit("message", v.message);
  visit("compiler_output", v.compiler_output);
  visit("correct_rate", v.correct_rate);
  visit("mismatch", v.mismatch);
  visit("rules", v.rules);
  visit("timings", v.timings);
  visit("coverage", v.coverage);
  visit("seconds", v.seconds);
  visit("protocol", v.protocol);
  visit("device", v.device);
  visit("lane", v.lane);
  visit("confirmed_on", v.confirmed_on);
  visit("toolchain", v.toolchain);
  visit("sandbox", v.sandbox);
  visit("seed_id", v.seed_id);
  visit("clock_mhz", v.clock_mhz);
  visit("from_cache", v.from_cache);
  visit("screened_on_cpu", v.screened_on_cpu);
  visit("sanitizer_report", v.sanitizer_report);
  visit("profile", v.profile);
}

template <class V>
void Fields(V& visit, Like<VersionSpan> auto& s) {
  visit("begin", s.begin);
  visit("end", s.end);
  visit("policy_version", s.policy_version);
}

template <class V>
void Fields(V& visit, Like<Turn> auto& t) {
  visit("prompt_ids", t.prompt_ids);
  visit("response_ids", t.response_ids);
  visit("log_probs", t.log_probs);
  visit("versions", t.versions);
  visit("response", t.response);
  visit("source", t.source);
  visit("truncated", t.truncated);
  visit("verdict", t.verdict);
}

template <class V>
void Fields(V& visit, Like<Episode> auto& e) {
  visit("id", e.id);
  visit("task_id", e.task_id);
  visit("retry", e.retry);
  visit("turns", e.turns);
}

template <class V>
void Fields(V& visit, Like<Group> auto& g) {
  visit("id", g.id);
  visit("task_id", g.task_id);
  visit("episodes", g.episodes);
}

// ---- Writing. ----

Json ToJson(bool value) { return value; }
Json ToJson(std::integral auto value) { return value; }
Json ToJson(const std::string& value) { return value; }
Json ToJson(Baseline value) { return std::string(Name(value)); }
Json ToJson(VerdictStatus value) { return std::string(Name(value)); }

/// JSON has no infinities: they are written as words.
Json ToJson(double value) {
  if (std::isnan(value)) return "nan";
  if (std::isinf(value)) return value > 0 ? "inf" : "-inf";
  return value;
}

/// A float in few digits where those read back to the same float, which is nearly always.
Json ToJson(float value) {
  if (!std::isfinite(value)) return ToJson(static_cast<double>(value));
  std::array<char, 32> digits;
  const std::to_chars_result end = std::to_chars(digits.data(), digits.data() + digits.size(), value);
  double rounded = 0;
  std::from_chars(digits.data(), end.ptr, rounded);
  return ToJson(static_cast<float>(rounded) == value ? rounded : static_cast<double>(value));
}

template <class T>
requires std::is_class_v<T> Json ToJson(const T& value);

template <class T>
Json ToJson(const std::vector<T>& values) {
  Json array = Json::array();
  array.get_ref<Json::array_t&>().reserve(values.size());
  for (const T& value : values) array.push_back(ToJson(value));
  return array;
}

template <class T>
Json ToJson(const std::optional<T>& value) {
  return value ? ToJson(*value) : Json(nullptr);
}

template <class T>
requires std::is_class_v<T> Json ToJson(const T& value) {
  Json object = Json::object();
  auto visit = [&object](const char* key, const auto& field) { object[key] = ToJson(field); };
  Fields(visit, value);
  return object;
}

std::string Dump(const Json& json, int indent) {
  return json.dump(indent, ' ', false, Json::error_handler_t::replace);  // bytes that are not UTF-8 become U+FFFD
}

// ---- Reading. ----

absl::Status Wrong(const std::string& path, absl::string_view expected) {
  return absl::InvalidArgumentError(absl::StrCat(path, ": expected ", expected));
}

absl::Status FromJson(const Json& json, const std::string& path, bool& out) {
  if (!json.is_boolean()) return Wrong(path, "true or false");
  out = json.get<bool>();
  return absl::OkStatus();
}

template <std::signed_integral T>
absl::Status FromJson(const Json& json, const std::string& path, T& out) {
  const bool fits = json.is_number_unsigned()
                        ? json.get<uint64_t>() <= static_cast<uint64_t>(std::numeric_limits<T>::max())
                        : json.is_number_integer() && json.get<int64_t>() >= std::numeric_limits<T>::min();
  if (!fits) return Wrong(path, absl::StrCat("a whole number of ", 8 * sizeof(T), " bits"));
  out = json.get<T>();
  return absl::OkStatus();
}

absl::Status FromJson(const Json& json, const std::string& path, double& out) {
  if (json.is_number()) {
    out = json.get<double>();
  } else if (json == "nan") {
    out = std::numeric_limits<double>::quiet_NaN();
  } else if (json == "inf") {
    out = std::numeric_limits<double>::infinity();
  } else if (json == "-inf") {
    out = -std::numeric_limits<double>::infinity();
  } else {
    return Wrong(path, "a number, \"nan\", \"inf\" or \"-inf\"");
  }
  return absl::OkStatus();
}

absl::Status FromJson(const Json& json, const std::string& path, float& out) {
  double value = 0;
  HONE_RETURN_IF_ERROR(FromJson(json, path, value));
  out = static_cast<float>(value);
  return absl::OkStatus();
}

absl::Status FromJson(const Json& json, const std::string& path, std::string& out) {
  if (!json.is_string()) return Wrong(path, "a string");
  out = json.get_ref<const std::string&>();
  return absl::OkStatus();
}

template <class Enum>
absl::Status FromName(const Json& json, const std::string& path, absl::string_view what,
                      std::optional<Enum> (*parse)(absl::string_view), Enum& out) {
  const std::optional<Enum> value = json.is_string() ? parse(json.get_ref<const std::string&>()) : std::nullopt;
  if (!value) return Wrong(path, what);
  out = *value;
  return absl::OkStatus();
}

absl::Status FromJson(const Json& json, const std::string& path, Baseline& out) {
  return FromName(json, path, "eager, compile, graph or scalar", ParseBaseline, out);
}

absl::Status FromJson(const Json& json, const std::string& path, VerdictStatus& out) {
  return FromName(json, path, "a verdict's status, such as OK or COMPILE", ParseVerdictStatus, out);
}

template <class T>
requires std::is_class_v<T> absl::Status FromJson(const Json& json, const std::string& path, T& out);

template <class T>
absl::Status FromJson(const Json& json, const std::string& path, std::vector<T>& out) {
  if (!json.is_array()) return Wrong(path, "a list");
  out.assign(json.size(), T());
  for (size_t i = 0; i < out.size(); ++i) {
    absl::Status status = FromJson(json[i], std::string(), out[i]);
    // The path of an item is only put together when it is needed: there are millions of tokens.
    if (!status.ok()) return FromJson(json[i], absl::StrCat(path, "[", i, "]"), out[i]);
  }
  return absl::OkStatus();
}

template <class T>
absl::Status FromJson(const Json& json, const std::string& path, std::optional<T>& out) {
  if (json.is_null()) {
    out.reset();
    return absl::OkStatus();
  }
  return FromJson(json, path, out.emplace());
}

/// Absent fields keep the struct's default, unknown ones are skipped: a reader of this schema reads its later
/// additions.
template <class T>
requires std::is_class_v<T> absl::Status FromJson(const Json& json, const std::string& path, T& out) {
  if (!json.is_object()) return Wrong(path.empty() ? "record" : path, "an object");
  absl::Status status;
  auto visit = [&](const char* key, auto& field) {
    const auto found = status.ok() ? json.find(key) : json.end();
    if (found == json.end()) return;
    status = FromJson(*found, path.empty() ? std::string(key) : absl::StrCat(path, ".", key), field);
  };
  Fields(visit, out);
  return status;
}

template <class T>
absl::StatusOr<T> Parse(absl::string_view text) {
  const Json json = Json::parse(text.begin(), text.end(), nullptr, false);
  if (json.is_discarded()) return absl::InvalidArgumentError("record: not JSON");
  T value;
  HONE_RETURN_IF_ERROR(FromJson(json, "", value));
  return value;
}

}  // namespace

std::string GroupToJson(const Group& group) { return Dump(ToJson(group), -1); }
absl::StatusOr<Group> GroupFromJson(absl::string_view line) { return Parse<Group>(line); }
std::string VerdictToJson(const Verdict& verdict, int indent) { return Dump(ToJson(verdict), indent); }
absl::StatusOr<Verdict> VerdictFromJson(absl::string_view json) { return Parse<Verdict>(json); }

}  // namespace hone
