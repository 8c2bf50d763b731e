#include "verifier/lane/observer.h"

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/file.h"
#include "base/status_macros.h"
#include "base/strings.h"
#include "base/subprocess.h"
#include "verifier/lane/tool_reports.h"
#include "verifier/sandbox/bubblewrap.h"

namespace hone::verifier {
namespace {

constexpr int64_t kReportBytes = 4 << 20;   // that a tool may print
constexpr size_t kKeptBytes = 4000;         // of a report: what a model can use
constexpr int64_t kInputBytes = int64_t{2} << 30;
constexpr uint64_t kAlignment = 64;

}  // namespace

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
  command.insert(command.end(), {options_.program, "--once", boxed ? kCallFolder : folder});
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
    box.writable = {{folder, kCallFolder}};
    box.devices = options_.devices;
    box.sys = !options_.gpu_backend.empty();
    box.environment = spawn.environment;
    spawn.argv = InSandbox(box, command);
  }
  HONE_ASSIGN_OR_RETURN(const RunResult run, Run(spawn, options_.timeout, kReportBytes));
  if (run.timed_out) return absl::UnavailableError(absl::StrCat(tool.front(), " does not end within ", absl::FormatDuration(options_.timeout)));
  if (absl::StartsWith(run.output, "bwrap:")) return absl::UnavailableError(ToUtf8(run.output.substr(0, 300)));
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
      return absl::UnavailableError(absl::StrCat("compute-sanitizer does not start: ", ToUtf8(output.substr(0, 300))));
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
  // Clocks stay as they are: a profiler that holds them would change the device for everybody.
  HONE_ASSIGN_OR_RETURN(const std::string output,
                        Watch({options_.profiler, "--csv", "--page", "raw", "--print-units", "base", "--clock-control", "none",
                               "--target-processes", "all", "--metrics", absl::StrJoin(ProfiledMetrics(), ",")},
                              folder.path()));
  return ParseProfile(output);
}

}  // namespace hone::verifier
