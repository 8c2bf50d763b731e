#include "base/results.h"

#include <fcntl.h>
#include <sys/file.h>
#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <thread>
#include <tuple>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "absl/time/clock.h"
#include "base/file.h"
#include "base/status_macros.h"
#include "base/subprocess.h"

namespace hone {
namespace {

using Json = nlohmann::ordered_json;

Json ToJson(const BenchResult& r) {
  return {{"id", r.id},           {"value", r.value}, {"unit", r.unit},    {"command", r.command},
          {"machine", r.machine}, {"date", r.date},   {"commit", r.commit}};
}

absl::StatusOr<BenchResult> FromJson(const Json& json, const std::string& where) {
  if (!json.is_object()) return absl::InvalidArgumentError(absl::StrCat(where, ": expected an object"));
  BenchResult result;
  const std::pair<const char*, std::string*> texts[] = {{"id", &result.id},           {"unit", &result.unit},
                                                        {"command", &result.command}, {"machine", &result.machine},
                                                        {"date", &result.date},       {"commit", &result.commit}};
  for (const auto& [key, field] : texts) {
    const auto found = json.find(key);
    if (found == json.end() || !found->is_string()) {
      return absl::InvalidArgumentError(absl::StrCat(where, ".", key, ": expected a string"));
    }
    *field = found->get<std::string>();
  }
  const auto value = json.find("value");
  if (value == json.end() || !value->is_number()) {
    return absl::InvalidArgumentError(absl::StrCat(where, ".value: expected a number"));
  }
  result.value = value->get<double>();
  return result;
}

absl::Status CheckResult(const BenchResult& r) {
  if (!std::isfinite(r.value)) return absl::InvalidArgumentError(absl::StrCat(r.id, ": value ", r.value));
  if (r.id.empty() || r.unit.empty() || r.command.empty() || r.machine.empty()) {
    return absl::InvalidArgumentError(absl::StrCat("'", r.id, "': id, unit, command and machine must be given"));
  }
  return absl::OkStatus();
}

/// Four significant digits, without an exponent where a person would not write one.
std::string Figure(double value) {
  const double size = std::abs(value);
  if (value == std::floor(value) && size < 1e15) return absl::StrFormat("%.0f", value);
  if (size >= 1000 && size < 1e15) return absl::StrFormat("%.0f", value);
  return absl::StrFormat("%.4g", value);
}

std::string Cell(absl::string_view text) { return absl::StrReplaceAll(text, {{"|", "\\|"}, {"\n", " "}}); }

std::string Group(const std::string& id) { return id.substr(0, id.find('.')); }

}  // namespace

std::string MachineKind() {
  std::string model;
  if (absl::StatusOr<std::string> info = ReadFile("/proc/cpuinfo"); info.ok()) {
    for (absl::string_view line : absl::StrSplit(*info, '\n')) {
      if (!absl::ConsumePrefix(&line, "model name")) continue;
      model = std::string(absl::StripAsciiWhitespace(line.substr(line.find(':') + 1)));
      break;
    }
  }
  return absl::StrCat(std::thread::hardware_concurrency(), " cores", model.empty() ? "" : ", ", model);
}

std::string Today() { return absl::FormatTime("%Y-%m-%d", absl::Now(), absl::UTCTimeZone()); }

std::string ThisCommand(const std::string& source_folder) {
  const absl::StatusOr<std::string> line = ReadFile("/proc/self/cmdline");
  if (!line.ok()) return "";
  std::error_code error;
  const std::string folder = std::filesystem::weakly_canonical(source_folder, error).string();
  const char* home = std::getenv("HOME");
  const std::vector<std::string> arguments = absl::StrSplit(absl::StripSuffix(*line, std::string(1, '\0')), '\0');
  return CommandText(arguments, folder, home == nullptr ? "" : home);
}

std::string CommandText(const std::vector<std::string>& arguments, const std::string& folder, const std::string& home) {
  std::vector<std::string> words;
  for (std::string word : arguments) {
    if (word == "--only-read") continue;
    if (!folder.empty()) word = absl::StrReplaceAll(word, {{absl::StrCat(folder, "/"), ""}});
    if (!home.empty()) word = absl::StrReplaceAll(word, {{absl::StrCat(home, "/"), "~/"}});
    const bool plain = !word.empty() && std::all_of(word.begin(), word.end(), [](char c) {
      return absl::ascii_isalnum(c) || absl::StrContains("_@%+=:,./-~[]", std::string(1, c));
    });
    words.push_back(plain ? word : absl::StrCat("'", absl::StrReplaceAll(word, {{"'", "'\\''"}}), "'"));
  }
  return absl::StrJoin(words, " ");
}

std::string CurrentCommit(const std::string& source_folder) {
  SpawnOptions git;
  git.argv = {"git", "-C", source_folder, "describe", "--always", "--dirty", "--exclude=*", "--abbrev=10"};
  const absl::StatusOr<RunResult> run = Run(git, absl::Seconds(10));
  if (!run.ok() || run->exit_code != 0) return "unknown";
  return std::string(absl::StripAsciiWhitespace(run->output));
}

absl::StatusOr<std::vector<BenchResult>> ReadResults(const std::string& path) {
  absl::StatusOr<std::string> text = ReadFile(path);
  if (absl::IsNotFound(text.status())) return std::vector<BenchResult>();
  HONE_RETURN_IF_ERROR(text.status());
  const Json json = Json::parse(*text, nullptr, false);
  if (!json.is_array()) return absl::InvalidArgumentError(absl::StrCat(path, ": expected a JSON list"));
  std::vector<BenchResult> results;
  for (const Json& entry : json) {
    HONE_ASSIGN_OR_RETURN(BenchResult result, FromJson(entry, absl::StrCat(path, ": [", results.size(), "]")));
    results.push_back(std::move(result));
  }
  return results;
}

absl::Status RecordResults(const std::string& path, const std::vector<BenchResult>& results) {
  for (const BenchResult& result : results) HONE_RETURN_IF_ERROR(CheckResult(result));
  // A file of its own is locked: the results are replaced by every write.
  const std::string lock_path = path + ".lock";
  const UniqueFd lock(open(lock_path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644));
  if (!lock) return ErrnoStatus(errno, absl::StrCat("opening ", lock_path));
  if (flock(lock.get(), LOCK_EX) != 0) return ErrnoStatus(errno, absl::StrCat("locking ", lock_path));
  HONE_ASSIGN_OR_RETURN(const std::vector<BenchResult> old, ReadResults(path));
  std::map<std::pair<std::string, std::string>, BenchResult> by_key;
  for (const auto* list : {&old, &results}) {
    for (const BenchResult& result : *list) by_key[{result.id, result.machine}] = result;
  }
  Json json = Json::array();
  for (const auto& [key, result] : by_key) json.push_back(ToJson(result));
  return WriteFileAtomically(path, json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n");
}

std::string RenderBenchmarks(const std::vector<BenchResult>& results) {
  std::vector<BenchResult> sorted = results;
  std::sort(sorted.begin(), sorted.end(), [](const BenchResult& a, const BenchResult& b) {
    return std::tie(a.id, a.machine) < std::tie(b.id, b.machine);
  });
  std::string page =
      "# Benchmarks\n\n"
      "Rendered from `bench/results.json`, which the programs in `bench/` write. Do not edit.\n";
  std::string group;
  for (const BenchResult& r : sorted) {
    if (Group(r.id) != group) {
      group = Group(r.id);
      absl::StrAppend(&page, "\n## ", group,
                      "\n\n| Figure | Value | Unit | Machine | Measured by | Date | Commit |\n"
                      "|---|---:|---|---|---|---|---|\n");
    }
    absl::StrAppend(&page, "| `", Cell(r.id), "` | ", Figure(r.value), " | ", Cell(r.unit), " | ", Cell(r.machine),
                    " | `", Cell(r.command), "` | ", Cell(r.date), " | ", Cell(r.commit), " |\n");
  }
  return page;
}

}  // namespace hone
