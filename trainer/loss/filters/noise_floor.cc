#include "trainer/loss/filters/noise_floor.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/journal.h"
#include "base/status_macros.h"
#include "trainer/loss/filters/filter.h"

namespace hone::trainer {
namespace {

using Json = nlohmann::ordered_json;
constexpr int kSchema = 1;

Json NumberToJson(float value) {
  if (std::isnan(value)) return "nan";
  if (std::isinf(value)) return value > 0 ? "inf" : "-inf";
  return value;
}

absl::StatusOr<float> NumberFromJson(const Json& json) {
  if (json.is_number()) return json.get<float>();
  if (json == "nan") return std::numeric_limits<float>::quiet_NaN();
  if (json == "inf") return std::numeric_limits<float>::infinity();
  if (json == "-inf") return -std::numeric_limits<float>::infinity();
  return absl::InvalidArgumentError("a log-probability that is no number");
}

absl::StatusOr<std::vector<float>> ArrayFromJson(const Json& json, const char* key) {
  const auto found = json.find(key);
  if (found == json.end() || !found->is_array()) {
    return absl::InvalidArgumentError(absl::StrCat("expected a list '", key, "'"));
  }
  std::vector<float> values;
  values.reserve(found->size());
  for (const Json& item : *found) {
    HONE_ASSIGN_OR_RETURN(const float value, NumberFromJson(item));
    values.push_back(value);
  }
  return values;
}

absl::StatusOr<LogProbRecord> RecordFromJson(const Json& json) {
  LogProbRecord record;
  const auto whole = [&](const char* key, int64_t& out) {
    const auto found = json.find(key);
    if (found == json.end()) return absl::OkStatus();
    if (!found->is_number_integer()) return absl::InvalidArgumentError(absl::StrCat("'", key, "' is no whole number"));
    out = found->get<int64_t>();
    return absl::OkStatus();
  };
  HONE_RETURN_IF_ERROR(whole("turn", record.turn));
  HONE_RETURN_IF_ERROR(whole("staleness", record.staleness));
  if (const auto found = json.find("episode"); found != json.end() && found->is_string())
    record.episode = found->get<std::string>();
  HONE_ASSIGN_OR_RETURN(record.learner, ArrayFromJson(json, "learner"));
  HONE_ASSIGN_OR_RETURN(record.rollout, ArrayFromJson(json, "rollout"));
  if (record.learner.size() != record.rollout.size()) {
    return absl::InvalidArgumentError(absl::StrCat(record.learner.size(), " log-probs of the learner and ",
                                                   record.rollout.size(), " of the rollout"));
  }
  return record;
}

absl::Status CheckHeader(const Json& json) {
  const auto schema = json.find("hone_log_probs");
  if (schema == json.end())
    return absl::InvalidArgumentError("not recorded log-probabilities: no \"hone_log_probs\" header");
  if (*schema == kSchema) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("log-probability schema ", schema->dump(), "; this version reads ", kSchema));
}

/// Up to two significant digits, never down.
double RoundUp(double value) {
  if (value <= 0) return 0;
  const double unit = std::pow(10.0, std::floor(std::log10(value)) - 1);
  return std::ceil(value / unit - 1e-9) * unit;
}

}  // namespace

std::string LogProbHeader() { return absl::StrCat("{\"hone_log_probs\":", kSchema, "}"); }

std::string LogProbRecordToJson(const LogProbRecord& record) {
  Json json = {{"episode", record.episode}, {"turn", record.turn}, {"staleness", record.staleness}};
  json["learner"] = json["rollout"] = Json::array();
  for (const float value : record.learner) json["learner"].push_back(NumberToJson(value));
  for (const float value : record.rollout) json["rollout"].push_back(NumberToJson(value));
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

absl::StatusOr<std::string> ReadLogProbs(const std::string& path,
                                         const std::function<absl::Status(const LogProbRecord&)>& visit) {
  int64_t lines = 0;
  const auto read_line = [&](absl::string_view line) -> absl::Status {
    const Json json = Json::parse(line.begin(), line.end(), nullptr, false);
    if (!json.is_object()) return absl::InvalidArgumentError("not a JSON object");
    if (lines++ == 0) return CheckHeader(json);
    HONE_ASSIGN_OR_RETURN(const LogProbRecord record, RecordFromJson(json));
    return visit(record);
  };
  HONE_ASSIGN_OR_RETURN(
      const JournalReadResult result, ReadJournalLines(path, [&](absl::string_view line) {
        const absl::Status status = read_line(line);
        if (status.code() != absl::StatusCode::kInvalidArgument) return status;
        return absl::InvalidArgumentError(absl::StrCat(path, ": line ", lines, ": ", status.message()));
      }));
  if (lines == 0) return absl::InvalidArgumentError(path + ": empty");
  return result.warning;
}

double MismatchAtStaleness::SequenceQuantile(double q) const {
  if (sequence_means.empty()) return std::numeric_limits<double>::quiet_NaN();
  std::vector<float> sorted = sequence_means;
  std::sort(sorted.begin(), sorted.end());
  return sorted[static_cast<size_t>(std::ceil(q * static_cast<double>(sorted.size() - 1)))];
}

double MismatchAtStaleness::RejectedShare(double delta) const {
  const auto above =
      std::count_if(sequence_means.begin(), sequence_means.end(), [delta](float mean) { return mean > delta; });
  const int64_t broken = sequences - static_cast<int64_t>(sequence_means.size());
  return sequences > 0 ? static_cast<double>(above + broken) / static_cast<double>(sequences) : 0;
}

absl::Status NoiseFloor::Add(const LogProbRecord& record) {
  if (record.learner.size() != record.rollout.size()) {
    return absl::InvalidArgumentError(absl::StrCat(record.episode, ": ", record.learner.size(),
                                                   " log-probs of the learner and ", record.rollout.size(),
                                                   " of the rollout"));
  }
  if (record.learner.empty()) return absl::OkStatus();
  MismatchAtStaleness& stats = by_staleness_[record.staleness];
  ++stats.sequences;
  double sum_abs = 0, sum_k3 = 0, max_abs = 0;
  int64_t not_finite = 0;
  for (size_t t = 0; t < record.learner.size(); ++t) {
    const double delta = static_cast<double>(record.learner[t]) - record.rollout[t];
    if (!std::isfinite(delta)) {
      ++not_finite;
      continue;
    }
    sum_abs += std::fabs(delta);
    sum_k3 += RatioOf(delta) - std::clamp(delta, -kMaxLogRatio, kMaxLogRatio) - 1;
    max_abs = std::max(max_abs, std::fabs(delta));
  }
  stats.not_finite += not_finite;
  if (not_finite > 0) return absl::OkStatus();
  const auto tokens = static_cast<int64_t>(record.learner.size());
  stats.tokens += tokens;
  stats.sum_abs += sum_abs;
  stats.sum_k3 += sum_k3;
  stats.max_abs = std::max(stats.max_abs, max_abs);
  stats.sequence_means.push_back(static_cast<float>(sum_abs / static_cast<double>(tokens)));
  return absl::OkStatus();
}

absl::StatusOr<double> NoiseFloor::SuggestedDelta() const {
  const auto fresh = by_staleness_.find(0);
  if (fresh == by_staleness_.end() || fresh->second.sequence_means.empty()) {
    return absl::FailedPreconditionError(
        "no sequence at zero staleness: record a step whose learner has the sampler's weights");
  }
  const MismatchAtStaleness& stats = fresh->second;
  return RoundUp(std::max(3 * stats.MeanAbs(), stats.SequenceQuantile(0.999)));
}

std::string NoiseFloor::Text(absl::Span<const double> deltas) const {
  std::string text = absl::StrFormat("%9s %9s %9s %12s %12s %12s %10s %10s\n", "staleness", "sequences", "tokens",
                                     "mean |log r|", "seq. p99", "seq. p99.9", "max", "mean k3");
  for (const auto& [staleness, s] : by_staleness_) {
    absl::StrAppendFormat(&text, "%9d %9d %9d %12.4g %12.4g %12.4g %10.4g %10.4g\n", staleness, s.sequences, s.tokens,
                          s.MeanAbs(), s.SequenceQuantile(0.99), s.SequenceQuantile(0.999), s.max_abs, s.MeanK3());
    if (s.not_finite > 0) absl::StrAppendFormat(&text, "%9s %d log-ratios are not finite\n", "", s.not_finite);
  }
  absl::StrAppend(&text, "\nshare of the sequences that MirrorPop rejects\n", absl::StrFormat("%9s", "delta"));
  for (const auto& [staleness, s] : by_staleness_)
    absl::StrAppendFormat(&text, " %12s", absl::StrCat("stale ", staleness));
  absl::StrAppend(&text, "\n");
  for (const double delta : deltas) {
    absl::StrAppendFormat(&text, "%9.3g", delta);
    for (const auto& [staleness, s] : by_staleness_)
      absl::StrAppendFormat(&text, " %11.2f%%", 100 * s.RejectedShare(delta));
    absl::StrAppend(&text, "\n");
  }
  return text;
}

std::string NoiseFloor::Csv(absl::Span<const double> deltas) const {
  std::string csv = "staleness,delta,rejected_share,sequences,tokens,mean_abs_log_ratio,max_abs_log_ratio,mean_k3\n";
  for (const auto& [staleness, s] : by_staleness_) {
    for (const double delta : deltas) {
      absl::StrAppend(&csv, staleness, ",", delta, ",", s.RejectedShare(delta), ",", s.sequences, ",", s.tokens, ",",
                      s.MeanAbs(), ",", s.max_abs, ",", s.MeanK3(), "\n");
    }
  }
  return csv;
}

}  // namespace hone::trainer
