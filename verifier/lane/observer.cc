#include "verifier/lane/observer.h"

#include <algorithm>
#include <map>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "base/file.h"
#include "base/status_macros.h"
#include "base/subprocess.h"
#include "verifier/sandbox/bubblewrap.h"

namespace hone::verifier {
namespace {

constexpr int64_t kReportBytes = 4 << 20;   // that a tool may print
constexpr size_t kKeptBytes = 4000;         // of a report: what a model can use
constexpr int64_t kInputBytes = int64_t{2} << 30;
constexpr uint64_t kAlignment = 64;
constexpr char kInside[] = "/call";         // the call's folder as its process sees it

// Besides time and warps: traffic of the memory, scalar arithmetic by width, and how much of the peak of either was used.
constexpr char kTime[] = "gpu__time_duration.sum";
constexpr char kWarps[] = "sm__warps_active.avg.pct_of_peak_sustained_active";
constexpr char kBytes[] = "dram__bytes.sum";
constexpr char kMemoryPeak[] = "dram__throughput.avg.pct_of_peak_sustained_elapsed";
constexpr char kArithmeticPeak[] = "sm__throughput.avg.pct_of_peak_sustained_elapsed";

/// Metrics that count floating-point instructions, with the operations of one.
std::vector<std::pair<std::string, double>> ArithmeticMetrics() {
  std::vector<std::pair<std::string, double>> metrics;
  for (const char* width : {"h", "f", "d"}) {
    for (const auto& [operation, flop] : {std::pair("add", 1.0), std::pair("mul", 1.0), std::pair("fma", 2.0)}) {
      metrics.emplace_back(absl::StrCat("sm__sass_thread_inst_executed_op_", width, operation, "_pred_on.sum"), flop);
    }
  }
  return metrics;
}

/// One line of comma-separated values; quotes may surround a value.
std::vector<std::string> SplitCsv(absl::string_view line) {
  std::vector<std::string> fields(1);
  bool quoted = false;
  for (const char c : line) {
    if (c == '"') {
      quoted = !quoted;
    } else if (c == ',' && !quoted) {
      fields.emplace_back();
    } else {
      fields.back() += c;
    }
  }
  return fields;
}

/// "sum<int>(float*)" without what stands in the outer parentheses.
std::string WithoutParameters(const std::string& name) {
  const size_t end = name.rfind('(');
  return end == std::string::npos || end == 0 ? name : name.substr(0, end);
}

std::string FirstLineWith(absl::string_view output, absl::string_view word) {
  for (absl::string_view line : absl::StrSplit(output, '\n')) {
    if (absl::StrContains(line, word)) return std::string(absl::StripAsciiWhitespace(line).substr(0, 300));
  }
  return "";
}

}  // namespace

std::string TrimSanitizerReport(absl::string_view output, size_t limit) {
  std::string report;
  bool found = false;
  for (absl::string_view line : absl::StrSplit(output, '\n')) {
    if (!absl::ConsumePrefix(&line, "=========")) continue;
    line = absl::StripAsciiWhitespace(line);
    if (line.empty() || absl::StartsWith(line, "COMPUTE-SANITIZER") || absl::StartsWith(line, "Host Frame") ||
        absl::StrContains(line, "backtrace") || absl::StartsWith(line, "Target application")) {
      continue;
    }
    const bool summary = absl::StrContains(line, "SUMMARY");
    if (summary && !found) return "";
    found = found || !summary;
    const std::string text = absl::StrReplaceAll(std::string(line), {{absl::StrCat(kInside, "/"), ""}});
    if (report.size() + text.size() + 1 > limit) break;
    absl::StrAppend(&report, report.empty() ? "" : "\n", text);
  }
  return found ? report : "";
}

absl::StatusOr<std::vector<KernelProfile>> ParseProfile(absl::string_view output) {
  if (const std::string error = FirstLineWith(output, "==ERROR=="); !error.empty()) {
    return absl::UnavailableError(absl::StrCat("the profiler: ", error));
  }
  std::map<std::string, size_t> columns;
  std::map<std::string, KernelProfile> kernels;
  double total_ns = 0;
  for (absl::string_view line : absl::StrSplit(output, '\n')) {
    const std::vector<std::string> fields = SplitCsv(absl::StripAsciiWhitespace(line));
    if (columns.empty()) {
      for (size_t i = 0; i < fields.size() && fields[0] == "ID"; ++i) columns[fields[i]] = i;
      continue;
    }
    int64_t id = 0;
    if (fields.size() < columns.size() || !absl::SimpleAtoi(fields[0], &id)) continue;  // the line of units
    const auto number = [&](const std::string& name) {
      const auto column = columns.find(name);
      double value = 0;
      if (column == columns.end() || !absl::SimpleAtod(absl::StrReplaceAll(fields[column->second], {{",", ""}}), &value)) return 0.0;
      return value;
    };
    const auto name = columns.find("Kernel Name");
    if (name == columns.end() || columns.count(kTime) == 0) break;
    KernelProfile& kernel = kernels[WithoutParameters(fields[name->second])];
    const double ns = number(kTime);
    ++kernel.launches;
    kernel.time_ns += ns;
    total_ns += ns;
    kernel.bytes += number(kBytes);
    for (const auto& [metric, flop] : ArithmeticMetrics()) kernel.flop += flop * number(metric);
    // Of several launches the mean over their time.
    kernel.occupancy += ns * number(kWarps) / 100;
    kernel.roofline += ns * std::max(number(kMemoryPeak), number(kArithmeticPeak)) / 100;
  }
  if (columns.empty()) return absl::InternalError(absl::StrCat("the profiler printed no table: ", output.substr(0, 300)));
  std::vector<KernelProfile> profile;
  for (auto& [name, kernel] : kernels) {
    kernel.kernel = name;
    if (kernel.time_ns > 0) {
      kernel.occupancy = std::min(1.0, kernel.occupancy / kernel.time_ns);
      kernel.roofline = std::min(1.0, kernel.roofline / kernel.time_ns);
      kernel.share = kernel.time_ns / total_ns;
    }
    profile.push_back(kernel);
  }
  std::stable_sort(profile.begin(), profile.end(),
                   [](const KernelProfile& a, const KernelProfile& b) { return a.time_ns > b.time_ns; });
  return profile;
}

/// Writes what `hone-runner --once` reads.
absl::Status Observer::Describe(const LaneJob& job, const CheckCase& check, const std::string& folder) const {
  const CallPlan& plan = check.pool->plan();
  std::vector<uint64_t> offsets;
  uint64_t end = 0;
  for (size_t t = 0; t < plan.tensors.size(); ++t) {
    offsets.push_back(end);
    if (job.signature.tensors[t].role == TensorArgument::Role::kOutput) continue;
    end += (static_cast<uint64_t>(plan.tensors[t].Bytes()) + kAlignment - 1) / kAlignment * kAlignment;
  }
  if (end > static_cast<uint64_t>(kInputBytes)) return absl::UnavailableError("the call's inputs are too large for a tool to watch it");
  std::string inputs(end, '\0');
  for (size_t t = 0; t < plan.tensors.size(); ++t) {
    if (job.signature.tensors[t].role == TensorArgument::Role::kOutput) continue;
    HONE_RETURN_IF_ERROR(device_->Check(device_->table().copy_out(device_->get(), inputs.data() + offsets[t], check.pool->Data(0, t),
                                                                  static_cast<uint64_t>(plan.tensors[t].Bytes())),
                                        "reading an input"));
  }
  std::string table(TableWriter::BytesFor(0, plan.tensors.size(), check.size_values.size(), plan.scalars.size(), 1, plan.recipe.size()), '\0');
  TableWriter(reinterpret_cast<unsigned char*>(table.data()), table.size()).Write({}, job.signature, plan, check.size_values, offsets);
  HONE_ASSIGN_OR_RETURN(const std::string artefact, ReadFile(job.build.artefact, kInputBytes));
  HONE_RETURN_IF_ERROR(WriteFileAtomically(folder + "/artefact.so", artefact));
  HONE_RETURN_IF_ERROR(WriteFileAtomically(folder + "/table.bin", table));
  return WriteFileAtomically(folder + "/inputs.bin", inputs);
}

/// All that the tool and the process it watches print.
absl::StatusOr<std::string> Observer::Watch(const std::vector<std::string>& tool, const std::string& folder) const {
  const bool boxed = options_.sandbox == "bubblewrap";
  std::vector<std::string> command = tool;
  command.insert(command.end(), {options_.program, "--once", boxed ? kInside : folder});
  if (!options_.gpu_backend.empty()) command.insert(command.end(), {"--gpu", options_.gpu_backend, options_.gpu_driver});
  command.insert(command.end(), options_.libraries.begin(), options_.libraries.end());
  SpawnOptions spawn;
  spawn.argv = command;
  spawn.environment = options_.environment;
  spawn.environment.insert(spawn.environment.end(), {"HOME=/tmp", "LC_ALL=C", "PATH=/usr/bin:/bin"});
  if (boxed) {
    SandboxSpec box;
    box.read_only = {"/usr", options_.program};
    for (const std::string& library : options_.libraries) {
      if (!absl::StartsWith(library, "/usr/")) box.read_only.push_back(library);
    }
    if (absl::StartsWith(options_.gpu_driver, "/") && !absl::StartsWith(options_.gpu_driver, "/usr/")) {
      box.read_only.push_back(options_.gpu_driver);
    }
    box.read_only_try = {"/bin", "/opt/nvidia", "/etc/alternatives"};  // where toolkits keep their tools
    box.writable = {{folder, kInside}};
    box.devices = options_.devices;
    box.sys = !options_.gpu_backend.empty();
    box.environment = spawn.environment;
    spawn.argv = InSandbox(box, command);
  }
  HONE_ASSIGN_OR_RETURN(const RunResult run, Run(spawn, options_.timeout, kReportBytes));
  if (run.timed_out) return absl::UnavailableError(absl::StrCat(tool.front(), " does not end within ", absl::FormatDuration(options_.timeout)));
  if (absl::StartsWith(run.output, "bwrap:")) return absl::UnavailableError(run.output.substr(0, 300));
  return run.output;
}

absl::StatusOr<std::string> Observer::Sanitize(const LaneJob& job, const CheckCase& check) const {
  if (options_.checker.empty()) return absl::UnavailableError("no compute-sanitizer in the CUDA toolkit");
  HONE_ASSIGN_OR_RETURN(const TempFolder folder, TempFolder::Create("hone-observe"));
  HONE_RETURN_IF_ERROR(Describe(job, check, folder.path()));
  for (const char* tool : {"memcheck", "racecheck", "initcheck", "synccheck"}) {
    HONE_ASSIGN_OR_RETURN(const std::string output, Watch({options_.checker, "--tool", tool, "--show-backtrace", "no", "--print-limit", "3"},
                                                          folder.path()));
    if (!absl::StrContains(output, "COMPUTE-SANITIZER")) {
      return absl::UnavailableError(absl::StrCat("compute-sanitizer does not start: ", output.substr(0, 300)));
    }
    const std::string report = TrimSanitizerReport(output, kKeptBytes);
    if (!report.empty()) return absl::StrCat(tool, "\n", report);
  }
  return std::string();
}

absl::StatusOr<std::vector<KernelProfile>> Observer::Profile(const LaneJob& job, const CheckCase& check) const {
  if (options_.profiler.empty()) return absl::UnavailableError("no ncu in the CUDA toolkit");
  HONE_ASSIGN_OR_RETURN(const TempFolder folder, TempFolder::Create("hone-observe"));
  HONE_RETURN_IF_ERROR(Describe(job, check, folder.path()));
  std::vector<std::string> metrics = {kTime, kWarps, kBytes, kMemoryPeak, kArithmeticPeak};
  for (const auto& [metric, flop] : ArithmeticMetrics()) metrics.push_back(metric);
  // Clocks stay as they are: a profiler that holds them would change the device for everybody.
  HONE_ASSIGN_OR_RETURN(const std::string output,
                        Watch({options_.profiler, "--csv", "--page", "raw", "--print-units", "base", "--clock-control", "none",
                               "--target-processes", "all", "--metrics", absl::StrJoin(metrics, ",")},
                              folder.path()));
  return ParseProfile(output);
}

}  // namespace hone::verifier
