#include "base/task_file.h"

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "base/config.h"
#include "base/status_macros.h"
#include "base/strings.h"

namespace hone {
namespace {

using nlohmann::json;

constexpr absl::string_view kFence = "# ---";
constexpr int kHighestLevel = 4;

// ---- The header. ----

struct ToleranceHeader {
  double atol = -1;  // negative: by dtype
  double rtol = -1;
};

struct LegalityHeader {
  LegalityPolicy policy;
};

/// The header as YAML has it, and the module's constants to check its sizes against.
struct TaskHeader {
  std::string id;
  int level = 1;
  std::string family = "other";
  std::string split = "train";
  std::string dtype = "float32";
  std::string description;
  std::vector<std::string> variants;
  std::string timing;
  std::string timing_gpu;
  std::vector<std::string> profiles = {"as_given"};
  ToleranceHeader tolerance;
  LegalityHeader legality;
  bool weak = false;
  std::vector<std::string> constants;
};

OneOf DTypeNames() {
  OneOf names;
  for (int i = 0; i <= static_cast<int>(DType::kBool); ++i) names.words.emplace_back(Name(static_cast<DType>(i)));
  return names;
}

std::string ProfileNames() {
  std::vector<absl::string_view> names;
  for (int i = 0; i <= static_cast<int>(ValueProfile::kSpecial); ++i) names.push_back(Name(static_cast<ValueProfile>(i)));
  return absl::StrJoin(names, ", ");
}

/// Empty, or why `text` is no set of sizes for a module with these constants.
std::string SizesError(const std::string& text, const std::vector<std::string>& constants) {
  const absl::StatusOr<Sizes> sizes = ParseSizes(text);
  if (!sizes.ok()) return std::string(sizes.status().message());
  for (const auto& [name, value] : *sizes) {
    if (std::find(constants.begin(), constants.end(), name) == constants.end()) {
      return absl::StrCat("the module has no constant \"", name, "\"; it has: ", absl::StrJoin(constants, ", "));
    }
  }
  return "";
}

template <class Fields>
void Describe(Fields& f, ToleranceHeader& t) {
  f.Value("atol", t.atol, Range(0.0, 1e6), "absolute part");
  f.Value("rtol", t.rtol, Range(0.0, 1.0), "relative part");
}

template <class Fields>
void Describe(Fields& f, LegalityHeader& h) {
  f.Value("allow_library_kernels", h.policy.allow_library_kernels, "whether cuBLAS, cuDNN and ATen may compute");
  f.Value("disabled_rules", h.policy.disabled_rules, "rules that do not apply to this task");
}

template <class Fields>
void Describe(Fields& f, TaskHeader& h) {
  f.Value("id", h.id, "unique within a collection");
  f.Value("level", h.level, Range(1, kHighestLevel), "KernelBench's level of difficulty");
  f.Value("family", h.family, "tasks of one kind");
  f.Value("split", h.split, OneOf{{"train", "held_out"}}, "whether it may be trained on");
  f.Value("dtype", h.dtype, DTypeNames(), "element type that decides the default tolerance");
  f.Value("description", h.description, "one line");
  f.Value("variants", h.variants, "further sizes that a candidate is checked on");
  f.Value("timing", h.timing, "sizes of the timed shape; empty: the module's own");
  f.Value("timing_gpu", h.timing_gpu, "the same on a real device");
  f.Value("profiles", h.profiles, "how input values are drawn");
  f.Section("tolerance", h.tolerance, "default: by dtype");
  f.Section("legality", h.legality, "what a candidate may do");
  f.Value("weak", h.weak, "the audit found that a trivial answer passes");
  for (const std::string& sizes : h.variants) {
    if (const std::string error = SizesError(sizes, h.constants); !error.empty()) f.Fail("variants", error);
  }
  if (const std::string error = SizesError(h.timing, h.constants); !error.empty()) f.Fail("timing", error);
  if (const std::string error = SizesError(h.timing_gpu, h.constants); !error.empty()) f.Fail("timing_gpu", error);
  for (const std::string& profile : h.profiles) {
    if (!ParseValueProfile(profile)) {
      f.Fail("profiles", absl::StrCat("\"", profile, "\" is none of: ", ProfileNames()));
    }
  }
}

absl::StatusOr<Task> ToTask(const TaskHeader& header) {
  Task task;
  task.id = header.id;
  task.level = header.level;
  task.family = header.family;
  task.description = header.description;
  task.split = *ParseSplit(header.split);
  task.dtype = *ParseDType(header.dtype);
  task.tolerance = DefaultTolerance(task.dtype);
  if (header.tolerance.atol >= 0) task.tolerance.atol = header.tolerance.atol;
  if (header.tolerance.rtol >= 0) task.tolerance.rtol = header.tolerance.rtol;
  for (const std::string& sizes : header.variants) {
    HONE_ASSIGN_OR_RETURN(Sizes variant, ParseSizes(sizes));
    task.variants.push_back(std::move(variant));
  }
  HONE_ASSIGN_OR_RETURN(task.timing, ParseSizes(header.timing));
  HONE_ASSIGN_OR_RETURN(task.timing_gpu, ParseSizes(header.timing_gpu));
  task.profiles.clear();
  for (const std::string& profile : header.profiles) task.profiles.push_back(*ParseValueProfile(profile));
  task.legality = header.legality.policy;
  task.weak = header.weak;
  return task;
}

// ---- The file. ----

struct SplitFile {
  std::string yaml;    // its lines carry the numbers they have in the file
  std::string module;  // the text after the header
  int module_line = 1; // where that starts in the file
};

absl::StatusOr<SplitFile> SplitHeader(absl::string_view text, const std::string& name) {
  const std::vector<absl::string_view> lines = absl::StrSplit(text, '\n');
  if (absl::StripTrailingAsciiWhitespace(lines.front()) != kFence) return SplitFile{"", std::string(text), 1};
  std::string yaml = "\n";
  for (size_t i = 1; i < lines.size(); ++i) {
    absl::string_view line = absl::StripTrailingAsciiWhitespace(lines[i]);
    if (line == kFence) {
      const size_t rest = lines[i].data() + lines[i].size() - text.data();
      return SplitFile{yaml, std::string(text.substr(std::min(rest + 1, text.size()))), static_cast<int>(i) + 2};
    }
    if (line.empty() && i + 1 == lines.size()) break;
    if (!absl::ConsumePrefix(&line, "#")) {
      return absl::InvalidArgumentError(
          absl::StrCat(name, ":", i + 1, ": the header ends with a line \"", kFence, "\" before the code starts"));
    }
    absl::ConsumePrefix(&line, " ");
    absl::StrAppend(&yaml, line, "\n");
  }
  return absl::InvalidArgumentError(absl::StrCat(name, ":1: the header has no closing line \"", kFence, "\""));
}

bool HasLineStarting(absl::string_view module, absl::string_view start) {
  return absl::StartsWith(module, start) || absl::StrContains(module, absl::StrCat("\n", start));
}

absl::Status CheckModule(absl::string_view module, const std::string& where) {
  const std::pair<const char*, const char*> needed[] = {
      {"class Model", "class Model"}, {"def get_inputs", "get_inputs()"}, {"def get_init_inputs", "get_init_inputs()"}};
  for (const auto& [start, name] : needed) {
    if (!HasLineStarting(module, start)) {
      return absl::InvalidArgumentError(absl::StrCat(
          where, ": the module has no ", name, "; a task needs class Model, get_inputs() and get_init_inputs()"));
    }
  }
  return absl::OkStatus();
}

absl::Status CheckText(absl::string_view text, const std::string& where) {
  if (static_cast<int64_t>(text.size()) > kMaxTaskBytes) {
    return absl::InvalidArgumentError(
        absl::StrCat(where, ": ", text.size(), " bytes; a task has at most ", kMaxTaskBytes));
  }
  if (const size_t bad = FirstNonUtf8(text); bad != absl::string_view::npos) {
    return absl::InvalidArgumentError(absl::StrCat(where, ":", 1 + std::count(text.begin(), text.begin() + bad, '\n'),
                                                   ": not UTF-8 (byte ", bad, ")"));
  }
  return absl::OkStatus();
}

// ---- KernelBench. ----

Task KernelBenchTask(int level, int problem_id, absl::string_view name) {
  Task task;
  task.id = KernelBenchId(level, problem_id);
  task.level = level;
  task.family = absl::StrCat("kernelbench_level", level);
  task.description = absl::StrJoin(absl::StrSplit(name, '_', absl::SkipEmpty()), " ");
  return task;
}

/// The task that a path like ".../level1/23_Softmax.py" stands for.
std::optional<Task> KernelBenchTaskByPath(const std::string& name) {
  const std::filesystem::path path(name);
  const std::string folder = path.parent_path().filename();
  const std::string stem = path.stem();
  const std::pair<absl::string_view, absl::string_view> parts = absl::StrSplit(stem, absl::MaxSplits('_', 1));
  int level = 0, problem_id = 0;
  if (!absl::StartsWith(folder, "level") || !absl::SimpleAtoi(folder.substr(5), &level) || level < 1 ||
      level > kHighestLevel || parts.second.empty() || !absl::SimpleAtoi(parts.first, &problem_id)) {
    return std::nullopt;
  }
  return KernelBenchTask(level, problem_id, parts.second);
}

// ---- JSON. ----

json SizesToJson(const Sizes& sizes) { return json(sizes); }

json ToJson(const Task& task) {
  json variants = json::array();
  for (const Sizes& variant : task.variants) variants.push_back(SizesToJson(variant));
  json profiles = json::array();
  for (const ValueProfile profile : task.profiles) profiles.push_back(std::string(Name(profile)));
  return {
      {"hone_task", 1},
      {"id", task.id},
      {"level", task.level},
      {"family", task.family},
      {"description", task.description},
      {"split", std::string(Name(task.split))},
      {"dtype", std::string(Name(task.dtype))},
      {"tolerance", {{"atol", task.tolerance.atol}, {"rtol", task.tolerance.rtol}}},
      {"variants", variants},
      {"timing", SizesToJson(task.timing)},
      {"timing_gpu", SizesToJson(task.timing_gpu)},
      {"profiles", profiles},
      {"legality",
       {{"allow_library_kernels", task.legality.allow_library_kernels},
        {"disabled_rules", task.legality.disabled_rules}}},
      {"weak", task.weak},
      {"reference", task.reference},
      {"scalar_baseline", task.scalar_baseline},
  };
}

/// The header of a task in JSON. JSON is YAML, so that one Describe checks both forms.
absl::StatusOr<Task> HeaderFromJson(const json& object, const std::string& where) {
  const auto sizes_text = [](const json& sizes) -> json {
    if (!sizes.is_object()) return sizes;
    std::vector<std::string> parts;
    for (const auto& [name, value] : sizes.items()) parts.push_back(absl::StrCat(name, "=", value.dump()));
    return absl::StrJoin(parts, " ");
  };
  json header = object;
  for (const char* key : {"hone_task", "reference", "scalar_baseline"}) header.erase(key);
  for (const char* key : {"timing", "timing_gpu"}) {
    if (header.contains(key)) header[key] = sizes_text(header[key]);
  }
  if (header.contains("variants") && header["variants"].is_array()) {
    for (json& variant : header["variants"]) variant = sizes_text(variant);
  }
  TaskHeader fields;
  fields.constants = ModuleConstants(object["reference"].get_ref<const std::string&>());
  HONE_ASSIGN_OR_RETURN(const ConfigFile file, ConfigFile::Parse(header.dump(), where));
  HONE_RETURN_IF_ERROR(file.Read(fields));
  return ToTask(fields);
}

absl::StatusOr<std::string> TextField(const json& object, const char* key, const std::string& where) {
  if (!object.contains(key) || !object[key].is_string()) {
    return absl::InvalidArgumentError(absl::StrCat(where, ": \"", key, "\" must be a string"));
  }
  return object[key].get<std::string>();
}

absl::StatusOr<int> NumberField(const json& object, const char* key, int high, const std::string& where) {
  if (!object.contains(key) || !object[key].is_number_integer() || object[key] < 1 || object[key] > high) {
    return absl::InvalidArgumentError(absl::StrCat(where, ": \"", key, "\" must be a whole number from 1 to ", high));
  }
  return object[key].get<int>();
}

absl::StatusOr<Task> FromOwnJson(const json& object, const std::string& where) {
  if (object["hone_task"] != 1) {
    return absl::InvalidArgumentError(
        absl::StrCat(where, ": \"hone_task\" is ", object["hone_task"].dump(), "; this program reads version 1"));
  }
  HONE_ASSIGN_OR_RETURN(std::string reference, TextField(object, "reference", where));
  HONE_ASSIGN_OR_RETURN(Task task, HeaderFromJson(object, where));
  if (task.id.empty()) return absl::InvalidArgumentError(absl::StrCat(where, ": \"id\" must not be empty"));
  task.reference = std::move(reference);
  if (object.contains("scalar_baseline")) {
    HONE_ASSIGN_OR_RETURN(task.scalar_baseline, TextField(object, "scalar_baseline", where));
  }
  return task;
}

absl::StatusOr<Task> FromKernelBenchJson(const json& object, const std::string& where) {
  HONE_ASSIGN_OR_RETURN(const int level, NumberField(object, "level", kHighestLevel, where));
  HONE_ASSIGN_OR_RETURN(const int problem_id, NumberField(object, "problem_id", 1'000'000, where));
  HONE_ASSIGN_OR_RETURN(const std::string name, TextField(object, "name", where));
  Task task = KernelBenchTask(level, problem_id, name);
  HONE_ASSIGN_OR_RETURN(task.reference, TextField(object, "code", where));
  return task;
}

}  // namespace

std::string KernelBenchId(int level, int problem_id) { return absl::StrCat("kernelbench_", level, "_", problem_id); }

std::vector<std::string> ModuleConstants(absl::string_view module) {
  std::vector<std::string> names;
  for (const absl::string_view line : absl::StrSplit(module, '\n')) {
    size_t end = 0;
    while (end < line.size() && (absl::ascii_isalnum(line[end]) || line[end] == '_')) ++end;
    const absl::string_view after = absl::StripLeadingAsciiWhitespace(line.substr(end));
    const bool assigns = absl::StartsWith(after, "=") && !absl::StartsWith(after, "==");
    if (end == 0 || absl::ascii_isdigit(line[0]) || !assigns) continue;
    std::string name(line.substr(0, end));
    if (std::find(names.begin(), names.end(), name) == names.end()) names.push_back(std::move(name));
  }
  return names;
}

absl::StatusOr<Task> ParseTaskFile(absl::string_view text, const std::string& name) {
  HONE_RETURN_IF_ERROR(CheckText(text, name));
  HONE_ASSIGN_OR_RETURN(SplitFile parts, SplitHeader(text, name));
  HONE_RETURN_IF_ERROR(CheckModule(parts.module, absl::StrCat(name, ":", parts.module_line)));
  if (parts.module_line == 1) {
    if (std::optional<Task> task = KernelBenchTaskByPath(name)) {
      task->reference = std::move(parts.module);
      return *std::move(task);
    }
  }
  TaskHeader header;
  header.id = std::filesystem::path(name).stem();
  header.constants = ModuleConstants(parts.module);
  if (!absl::StripAsciiWhitespace(parts.yaml).empty()) {
    HONE_ASSIGN_OR_RETURN(const ConfigFile file, ConfigFile::Parse(parts.yaml, name));
    HONE_RETURN_IF_ERROR(file.Read(header));
  }
  HONE_ASSIGN_OR_RETURN(Task task, ToTask(header));
  if (task.id.empty()) return absl::InvalidArgumentError(absl::StrCat(name, ":1: id must not be empty"));
  task.reference = std::move(parts.module);
  return task;
}

std::string FormatTaskFile(const Task& task) {
  const Tolerance usual = DefaultTolerance(task.dtype);
  std::vector<std::string> lines;
  const auto add = [&lines](const auto&... parts) { lines.push_back(absl::StrCat(parts...)); };
  add("id: ", json(task.id).dump());
  add("level: ", task.level);
  add("family: ", json(task.family).dump());
  add("split: ", Name(task.split));
  add("dtype: ", Name(task.dtype));
  add("description: ", json(task.description).dump());
  if (!task.variants.empty()) add("variants:");
  for (const Sizes& variant : task.variants) add("  - ", FormatSizes(variant));
  if (!task.timing.empty()) add("timing: ", FormatSizes(task.timing));
  if (!task.timing_gpu.empty()) add("timing_gpu: ", FormatSizes(task.timing_gpu));
  std::vector<absl::string_view> profiles;
  for (const ValueProfile profile : task.profiles) profiles.push_back(Name(profile));
  add("profiles: [", absl::StrJoin(profiles, ", "), "]");
  if (task.tolerance != usual) {
    add("tolerance: {atol: ", json(task.tolerance.atol).dump(), ", rtol: ", json(task.tolerance.rtol).dump(), "}");
  }
  if (task.legality != LegalityPolicy()) {
    add("legality: {allow_library_kernels: ", task.legality.allow_library_kernels ? "true" : "false",
        ", disabled_rules: ", json(task.legality.disabled_rules).dump(), "}");
  }
  if (task.weak) add("weak: true");
  std::string text = absl::StrCat(kFence, "\n");
  for (const std::string& line : lines) absl::StrAppend(&text, "# ", line, "\n");
  return absl::StrCat(text, kFence, "\n", task.reference);
}

std::string TaskToJson(const Task& task) { return ToJson(task).dump(-1, ' ', false, json::error_handler_t::replace); }

absl::StatusOr<Task> TaskFromJson(absl::string_view line, const std::string& where) {
  HONE_RETURN_IF_ERROR(CheckText(line, where));
  const json object = json::parse(line.begin(), line.end(), nullptr, /*allow_exceptions=*/false);
  if (!object.is_object()) return absl::InvalidArgumentError(absl::StrCat(where, ": not a JSON object"));
  absl::StatusOr<Task> task =
      object.contains("hone_task") ? FromOwnJson(object, where) : FromKernelBenchJson(object, where);
  if (task.ok()) HONE_RETURN_IF_ERROR(CheckModule(task->reference, where));
  return task;
}

}  // namespace hone
