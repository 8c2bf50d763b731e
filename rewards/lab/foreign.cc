#include "rewards/lab/foreign.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "base/file.h"
#include "base/status_macros.h"

namespace hone::rewards {
namespace {

using Json = nlohmann::ordered_json;

Json ParseJson(absl::string_view text) { return Json::parse(text.begin(), text.end(), nullptr, false); }

const Json* Find(const Json& object, const char* key) {
  if (!object.is_object()) return nullptr;
  const auto found = object.find(key);
  return found == object.end() || found->is_null() ? nullptr : &*found;
}
bool Flag(const Json& object, const char* key) {
  const Json* value = Find(object, key);
  return value != nullptr && value->is_boolean() && value->get<bool>();
}
double Number(const Json& object, const char* key) {
  const Json* value = Find(object, key);
  return value != nullptr && value->is_number() ? value->get<double>() : 0;
}
std::string Text(const Json& object, const char* key) {
  const Json* value = Find(object, key);
  if (value == nullptr) return "";
  return value->is_string() ? value->get<std::string>() : value->dump();
}

/// A pass with a single figure for its speed: an interval of no width.
Outcome PassAt(double speedup) {
  Outcome outcome;
  outcome.status = VerdictStatus::kOk;
  outcome.correct_rate = 1;
  outcome.first_baseline = Baseline::kEager;
  if (std::isfinite(speedup) && speedup > 0) outcome.speedups[0] = {speedup, speedup, speedup};
  return outcome;
}
Outcome Failure(VerdictStatus status, double correct_rate = 0) {
  Outcome outcome;
  outcome.status = status;
  outcome.correct_rate = correct_rate;
  return outcome;
}

/// "(2 / 5)": trials that were right.
double RateOfTrials(const std::string& text) {
  const size_t slash = text.find('/');
  double right = 0;
  double all = 0;
  if (slash == std::string::npos) return 0;
  const auto digits = [](std::string part) {
    part.erase(std::remove_if(part.begin(), part.end(), [](char c) { return c < '0' || c > '9'; }), part.end());
    return part;
  };
  if (!absl::SimpleAtod(digits(text.substr(0, slash)), &right) || !absl::SimpleAtod(digits(text.substr(slash)), &all)) {
    return 0;
  }
  return all > 0 && right < all ? right / all : 0;
}

void Append(LabGroup& group, Outcome outcome, const std::string& episode_id) {
  outcome.uniform = UniformOf(episode_id, 0);
  group.episode_ids.push_back(episode_id);
  group.outcomes.push_back({outcome});
}

/// The outcome of a record in KernelBench's terms, which KernelGYM shares.
Outcome OutcomeOfResult(const Json& result, double speedup) {
  const Json* found = Find(result, "metadata");
  const Json metadata = found != nullptr ? *found : Json::object();
  if (Flag(result, "decoy_kernel")) return Failure(VerdictStatus::kCheat);
  if (!Flag(result, "compiled")) return Failure(VerdictStatus::kCompile);
  if (Flag(result, "correctness")) return PassAt(speedup);
  if (Find(metadata, "runtime_error") != nullptr) return Failure(VerdictStatus::kRuntime);
  return Failure(VerdictStatus::kIncorrect, RateOfTrials(Text(metadata, "correctness_trials")));
}

std::string Hardware(const Json& result) {
  if (const Json* metadata = Find(result, "metadata")) {
    if (Find(*metadata, "hardware") != nullptr) return Text(*metadata, "hardware");
  }
  return "";
}

void NoteDevice(const std::string& device, LabGroup& group) {
  if (device.empty() || std::find(group.devices.begin(), group.devices.end(), device) != group.devices.end()) return;
  group.devices.push_back(device);
}

/// Codes of KernelGYM that speak of the candidate; every other failure is the service's own.
bool BlamesCandidate(const std::string& code) {
  for (const char* word : {"COMPILATION", "RUNTIME", "CORRECTNESS", "VALIDATION"}) {
    if (absl::AsciiStrToUpper(code).find(word) != std::string::npos) return true;
  }
  return false;
}

std::optional<double> CoverageOf(const Json& result) {
  const auto time = [&](const char* key) {
    const Json* metadata = Find(result, "metadata");
    const double own = Number(result, key);
    return own > 0 || metadata == nullptr ? own : Number(*metadata, key);
  };
  const double total = time("total_kernel_run_time_in_profiling_us");
  if (total <= 0) return std::nullopt;
  return std::clamp(time("custom_kernel_cuda_time_in_profiling_us") / total, 0.0, 1.0);
}

double SpeedupOfResult(const Json& result) {
  if (const double speedup = Number(result, "speedup"); speedup > 0) return speedup;
  for (const char* reference : {"ref_runtime", "reference_runtime"}) {
    for (const char* candidate : {"runtime", "kernel_runtime"}) {
      if (Number(result, reference) > 0 && Number(result, candidate) > 0) {
        return Number(result, reference) / Number(result, candidate);
      }
    }
  }
  return 0;
}

/// Milliseconds of the baseline by problem number.
absl::StatusOr<std::map<std::string, double>> ReadBaselineTimes(const ReadOptions& options) {
  std::map<std::string, double> times;
  if (options.baseline_times.empty()) return times;
  HONE_ASSIGN_OR_RETURN(const std::string text, ReadFile(options.baseline_times));
  const Json json = ParseJson(text);
  if (!json.is_object()) return absl::InvalidArgumentError(options.baseline_times + ": not a JSON object of levels");
  for (const auto& [level, problems] : json.items()) {
    if (options.level > 0 && level != absl::StrCat("level", options.level)) continue;
    if (!problems.is_object()) continue;
    for (const auto& [name, figures] : problems.items()) {
      const std::string number = name.substr(0, name.find('_'));
      if (!times.emplace(number, Number(figures, "mean")).second) {
        return absl::InvalidArgumentError(absl::StrCat(options.baseline_times, ": problem ", number,
                                                       " occurs in several levels: say which one with --level"));
      }
    }
  }
  if (times.empty()) {
    return absl::InvalidArgumentError(absl::StrCat(options.baseline_times, ": no times of level ", options.level));
  }
  return times;
}

}  // namespace

LineFormat FormatOfLine(absl::string_view first_line) {
  const Json json = ParseJson(first_line);
  if (!json.is_object()) return LineFormat::kUnknown;
  if (json.contains("hone_journal") || json.contains("episodes")) return LineFormat::kJournal;
  if (json.contains("published_speedup")) return LineFormat::kCudaL1;
  if (json.contains("compiled") && json.contains("correctness")) return LineFormat::kKernelGym;
  return LineFormat::kUnknown;
}

absl::StatusOr<bool> ReadCudaL1Line(absl::string_view line, LabGroup& group) {
  const Json json = ParseJson(line);
  if (!json.is_object() || Find(json, "level") == nullptr || Find(json, "problem_id") == nullptr) {
    return absl::InvalidArgumentError("expected an object with level, problem_id, candidate and published_speedup");
  }
  group = LabGroup();
  group.id = group.task_id = absl::StrCat("level", Text(json, "level"), "/", Text(json, "problem_id"));
  if (Find(json, "candidate") == nullptr) return false;
  Append(group, PassAt(Number(json, "published_speedup")), group.id);
  return true;
}

absl::Status KernelGymReader::Add(absl::string_view line) {
  const Json result = ParseJson(line);
  if (!result.is_object() || !result.contains("compiled")) {
    return absl::InvalidArgumentError("expected an object with compiled, correctness and speedup");
  }
  std::string key;
  for (const char* name : {"group_id", "problem_id", "base_task_id", "task_id"}) {
    if (key.empty()) key = Text(result, name);
  }
  const auto [found, added] = index_.emplace(key, groups_.size());
  if (added) {
    LabGroup& fresh = groups_.emplace_back();
    fresh.id = fresh.task_id = key;
  }
  LabGroup& group = groups_[found->second];
  Outcome outcome = OutcomeOfResult(result, SpeedupOfResult(result));
  if (Text(result, "status") == "failed" && !BlamesCandidate(Text(result, "error_code"))) {
    outcome = Failure(VerdictStatus::kInfra);
  }
  if (outcome.passed()) {
    outcome.coverage = CoverageOf(result);
    NoteDevice(Hardware(result), group);
  }
  const std::string task = Text(result, "task_id");
  Append(group, outcome, absl::StrCat(task.empty() ? key : task, "#", group.outcomes.size()));
  return absl::OkStatus();
}

absl::Status KernelGymReader::Finish(const std::function<absl::Status(LabGroup&&)>& visit) {
  for (LabGroup& group : groups_) HONE_RETURN_IF_ERROR(visit(std::move(group)));
  groups_.clear();
  index_.clear();
  return absl::OkStatus();
}

absl::Status ReadKernelBench(absl::string_view text, const std::string& path, const ReadOptions& options,
                             const std::function<absl::Status(LabGroup&&)>& visit) {
  const Json json = ParseJson(text);
  if (!json.is_object()) return absl::InvalidArgumentError(path + ": neither JSON Lines nor KernelBench's results");
  HONE_ASSIGN_OR_RETURN(const auto times, ReadBaselineTimes(options));
  for (const auto& [problem, value] : json.items()) {
    const Json results = value.is_array() ? value : Json::array({value});
    LabGroup group;
    group.id = group.task_id = problem;
    for (const Json& result : results) {
      if (!result.is_object() || !result.contains("compiled") || !result.contains("correctness")) {
        return absl::InvalidArgumentError(
            absl::StrCat(path, ": problem ", problem, ": expected results with compiled and correctness"));
      }
      double speedup = SpeedupOfResult(result);
      const auto baseline = times.find(problem);
      if (speedup <= 0 && baseline != times.end() && Number(result, "runtime") > 0) {
        speedup = baseline->second / Number(result, "runtime");
      }
      const Outcome outcome = OutcomeOfResult(result, speedup);
      if (outcome.passed()) NoteDevice(Hardware(result), group);
      const std::string sample = Text(result, "sample_id");
      Append(group, outcome, absl::StrCat(problem, "/", sample.empty() ? absl::StrCat(group.outcomes.size()) : sample));
    }
    HONE_RETURN_IF_ERROR(visit(std::move(group)));
  }
  return absl::OkStatus();
}

}  // namespace hone::rewards
