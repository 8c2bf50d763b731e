// `hone doctor`: what this machine can do, and what to do about the rest.

#include <sched.h>
#include <sys/utsname.h>

#include <CLI/CLI.hpp>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "base/file.h"
#include "base/results.h"
#include "base/status_macros.h"
#include "base/subprocess.h"
#include "base/task_suite.h"
#include "cli/command.h"
#include "verifier/build/musa_builder.h"
#include "verifier/device/cuda/driver.h"
#include "verifier/device/musa/dialect.h"
#include "verifier/sandbox/bubblewrap.h"

namespace hone::cli {
namespace {

namespace fs = std::filesystem;

/// kFailed: candidates cannot be judged at all. kAbsent: something optional is not there.
enum class State { kReady, kAbsent, kFailed };

struct Finding {
  std::string section;  // "compilers"
  std::string name;     // "g++"
  State state = State::kReady;
  std::string detail;   // version and place, or what is wrong
  std::string hint;     // what to do; empty when ready
};

absl::string_view Name(State state) {
  switch (state) {
    case State::kReady: return "ready";
    case State::kAbsent: return "absent";
    case State::kFailed: return "failed";
  }
  return "";
}

/// Exit code and output of a command; 127 when there is no such program.
RunResult TryRun(std::vector<std::string> argv, absl::Duration timeout = absl::Seconds(60)) {
  SpawnOptions spawn;
  spawn.argv = std::move(argv);
  absl::StatusOr<RunResult> result = Run(spawn, timeout, 1 << 16);
  if (result.ok()) return *std::move(result);
  RunResult missing;
  missing.exit_code = 127;
  missing.output = std::string(result.status().message());
  return missing;
}

std::string FirstLine(const std::string& text) { return text.substr(0, text.find('\n')); }
std::string LastLine(const std::string& text) {
  const std::vector<std::string> lines = absl::StrSplit(absl::StripAsciiWhitespace(text), '\n');
  return lines.back();
}

// ---- Machine. ----

Finding FindMachine() {
  utsname system = {};
  uname(&system);
  std::string memory;
  if (absl::StatusOr<std::string> info = ReadFile("/proc/meminfo"); info.ok()) {
    const int64_t kib = std::atoll(info->c_str() + info->find_first_of("0123456789"));
    memory = absl::StrFormat(", %.1f GiB of memory", static_cast<double>(kib) / (1 << 20));
  }
  return {"machine", "host", State::kReady, absl::StrCat(MachineKind(), memory, ", ", system.sysname, " ", system.release), ""};
}

// ---- Compilers. ----

Finding FindCompiler(const std::string& name, const std::vector<std::string>& places, State if_missing,
                     const std::string& hint, const std::function<std::string(const std::string&)>& version_of) {
  for (const std::string& place : places) {
    const RunResult result = TryRun({place, "--version"});
    if (result.exit_code == 0) return {"compilers", name, State::kReady, absl::StrCat(version_of(result.output), " (", place, ")"), ""};
  }
  return {"compilers", name, if_missing, "not found", hint};
}

std::string BelowHome(const char* variable, const char* fallback, const char* program) {
  const char* home = std::getenv(variable);
  return absl::StrCat(home == nullptr ? fallback : home, "/bin/", program);
}

void FindCompilers(std::vector<Finding>& findings) {
  findings.push_back(FindCompiler("g++", {"g++"}, State::kFailed, "install g++: native candidates on the CPU backend need it",
                                  FirstLine));
  findings.push_back(FindCompiler("nvcc", {"nvcc", BelowHome("CUDA_HOME", "/usr/local/cuda", "nvcc")}, State::kAbsent,
                                  "install the CUDA toolkit, or set CUDA_HOME, to build CUDA candidates",
                                  [](const std::string& output) {
                                    for (const std::string& line : std::vector<std::string>(absl::StrSplit(output, '\n'))) {
                                      if (absl::StrContains(line, "release")) return line;
                                    }
                                    return FirstLine(output);
                                  }));
  findings.push_back(FindCompiler("mcc", {"mcc", BelowHome("MUSA_HOME", "/usr/local/musa", "mcc")}, State::kAbsent,
                                  "install the MUSA toolkit, or set MUSA_HOME, to build MUSA candidates", FirstLine));
}

// ---- Devices. ----

Finding FindGpus(const std::string& name, const std::string& folder, const std::string& prefix, const RunResult& listing,
                 const std::string& hint) {
  int nodes = 0;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(folder, error)) {
    const std::string file = entry.path().filename().string();
    if (absl::StartsWith(file, prefix) && file.size() > prefix.size() && absl::ascii_isdigit(file[prefix.size()])) ++nodes;
  }
  if (nodes == 0) return {"devices", name, State::kAbsent, "no device node", hint};
  if (listing.exit_code != 0) {
    return {"devices", name, State::kAbsent, absl::StrCat(nodes, " device nodes, but the driver's tool says: ", FirstLine(listing.output)), hint};
  }
  return {"devices", name, State::kReady,
          absl::StrJoin(absl::StrSplit(absl::StripAsciiWhitespace(listing.output), '\n'), "; "), ""};
}

/// What judging on an NVIDIA GPU needs beside the GPU, and what it is faster with.
void FindCudaParts(std::vector<Finding>& findings) {
  using verifier::kCudaDialect;
  std::vector<verifier::GpuListing> gpus;
  std::string error;
  if (!verifier::ListGpus(kCudaDialect, &gpus, &error)) {
    findings.push_back({"cuda", "driver", State::kAbsent, error, "install NVIDIA's driver to judge CUDA candidates"});
    return;
  }
  for (size_t i = 0; i < gpus.size(); ++i) {
    findings.push_back({"cuda", absl::StrCat("cuda:", i), State::kReady, absl::StrCat(gpus[i].name, ", ", gpus[i].architecture, ", one lane"), ""});
  }
  const auto library = [&](const char* name, const char* const* names, const std::string& hint) {
    const std::string path = verifier::FindGpuLibrary(kCudaDialect, names, {});
    findings.push_back({"cuda", name, path.empty() ? State::kAbsent : State::kReady, path.empty() ? "not found" : path,
                        path.empty() ? hint : ""});
  };
  library("runtime", kCudaDialect.runtime_libraries, "set CUDA_HOME to a CUDA toolkit: candidates need its libcudart.so");
  library("nvrtc", kCudaDialect.compiler_libraries, "set CUDA_HOME to a CUDA toolkit: without libnvrtc.so outputs are compared on the host");
}

/// What verifies MUSA candidates: Moore Threads' toolkit and GPU, or by name a toolchain of MUSA's names over another.
void FindMusaParts(std::vector<Finding>& findings) {
  using verifier::kMusaDialect;
  std::vector<verifier::GpuListing> gpus;
  std::string error;
  if (verifier::ListGpus(kMusaDialect, &gpus, &error)) {
    for (size_t i = 0; i < gpus.size(); ++i) {
      findings.push_back({"musa", absl::StrCat("musa:", i), State::kReady, absl::StrCat(gpus[i].name, ", ", gpus[i].architecture, ", one lane"), ""});
    }
  } else {
    findings.push_back({"musa", "driver", State::kAbsent, error, "install Moore Threads' driver, or choose a toolchain below"});
  }
  const auto library = [&](const char* name, const char* const* names, const std::string& hint) {
    const std::string path = verifier::FindGpuLibrary(kMusaDialect, names, {});
    findings.push_back({"musa", name, path.empty() ? State::kAbsent : State::kReady, path.empty() ? "not found" : path,
                        path.empty() ? hint : ""});
  };
  library("runtime", kMusaDialect.runtime_libraries, "set MUSA_HOME to a MUSA toolkit: candidates need its libmusart.so");
  library("mtrtc", kMusaDialect.compiler_libraries, "set MUSA_HOME to a MUSA toolkit: without libmtrtc.so outputs are compared on the host");
  const absl::StatusOr<verifier::MusaToolchain> chosen = verifier::ChooseMusaToolchain("");
  findings.push_back({"musa", "toolchain", chosen.ok() ? State::kReady : State::kAbsent,
                      chosen.ok() ? absl::StrCat(verifier::Name(*chosen), " unless a command or configuration names another")
                                  : std::string(chosen.status().message()),
                      chosen.ok() ? "" : "correct or unset HONE_MUSA_TOOLCHAIN"});
  const bool headers = FileExists(ResourcePath("musa/include/musa_runtime.h")) &&
                       FileExists(verifier::InstalledPath(verifier::kCompatRuntime));
  const State state = headers ? State::kReady : State::kAbsent;
  const std::string hint = headers ? "" : "build the target `hone_musa_compat`, or install the whole tree with cmake --install";
  findings.push_back({"musa", "compat/cpu", state, headers ? "MUSA's names over the CPU emulation" : "not installed", hint});
  std::vector<verifier::GpuListing> nvidia;
  const bool nvcc = FileExists(verifier::ToolkitFolder(verifier::kCudaDialect) + "/bin/nvcc");
  const bool cuda = headers && nvcc && verifier::ListGpus(verifier::kMusaOnCudaDialect, &nvidia, &error) && !nvidia.empty();
  findings.push_back({"musa", "compat/cuda", cuda ? State::kReady : State::kAbsent,
                      cuda ? absl::StrCat("MUSA's names over CUDA, on ", nvidia.front().name) : "no NVIDIA GPU or no nvcc",
                      cuda ? "" : "MUSA candidates run through CUDA on a machine with an NVIDIA GPU and the CUDA toolkit"});
}

void FindDevices(std::vector<Finding>& findings) {
  findings.push_back({"devices", "cpu", State::kReady, "the CUDA dialect emulated on the host; its times say nothing about a GPU", ""});
  findings.push_back(FindGpus("cuda", "/dev", "nvidia",
                              TryRun({"nvidia-smi", "--query-gpu=name,memory.total,driver_version", "--format=csv,noheader"}),
                              "CUDA candidates can be verified on a machine with an NVIDIA GPU and its driver"));
  findings.push_back(FindGpus("musa", "/dev", "mtgpu.", TryRun({"mthreads-gmi", "-L"}),
                              "MUSA candidates can be verified on a machine with a Moore Threads GPU and its driver"));
  FindCudaParts(findings);
  FindMusaParts(findings);
}

// ---- Sandbox. ----

void FindSandbox(std::vector<Finding>& findings) {
  const absl::Status& status = verifier::SandboxAvailable();
  if (status.ok()) {
    findings.push_back({"sandbox", "bubblewrap", State::kReady, FirstLine(TryRun({"bwrap", "--version"}).output), ""});
  } else {
    const absl::StatusOr<std::string> chosen = verifier::ChooseSandbox("");
    findings.push_back({"sandbox", "bubblewrap", chosen.ok() ? State::kAbsent : State::kFailed, std::string(status.message()),
                        chosen.ok() ? "HONE_SANDBOX=none is set: candidates run with your rights"
                                    : "HONE_SANDBOX=none goes on without: candidates then run with your rights"});
  }
}

// ---- Python. ----

constexpr char kTorchFacts[] =
    "import sys\n"
    "print('Python', sys.version.split()[0])\n"
    "import torch\n"
    "print('torch', torch.__version__, '' if not torch.cuda.is_available() else 'with ' + torch.cuda.get_device_name(0))\n";

void FindPython(const std::string& asked, std::vector<Finding>& findings) {
  const char* from_environment = std::getenv("HONE_PYTHON");
  std::string python = !asked.empty() ? asked : from_environment != nullptr ? from_environment : HONE_BUILD_PYTHON;
  if (python.empty()) python = "python3";
  const std::string hint = "run deploy/setup/setup.sh, or set HONE_PYTHON to an interpreter with torch >= 2.6";
  const RunResult result = TryRun({python, "-c", kTorchFacts}, absl::Minutes(3));
  if (result.exit_code == 0) {
    findings.push_back({"python", "torch", State::kReady,
                        absl::StrCat(absl::StrJoin(absl::StrSplit(absl::StripAsciiWhitespace(result.output), '\n'), ", "), " (", python, ")"), ""});
  } else {
    findings.push_back({"python", "torch", State::kFailed, absl::StrCat(python, ": ", LastLine(result.output)), hint});
  }
}

// ---- Installation. ----

void FindInstallation(std::vector<Finding>& findings) {
  for (const char* program : {"hone-verifier", "hone-runner"}) {
    const std::string path = absl::StrCat(ProgramFolder(), "/", program);
    if (FileExists(path)) {
      findings.push_back({"installation", program, State::kReady, path, ""});
    } else {
      findings.push_back({"installation", program, State::kFailed, absl::StrCat(path, " is missing"),
                          "build the target `programs`, or install the whole tree with cmake --install"});
    }
  }
  const absl::StatusOr<std::vector<Task>> suite = LoadTasks(SuiteFolder());
  if (suite.ok()) {
    findings.push_back({"installation", "task suite", State::kReady, absl::StrCat(suite->size(), " tasks in ", SuiteFolder()), ""});
  } else {
    findings.push_back({"installation", "task suite", State::kAbsent, std::string(suite.status().message()),
                        "install the whole tree with cmake --install; tasks can be named by path meanwhile"});
  }
}

// ---- Report. ----

nlohmann::json ToJson(const Finding& finding) {
  return {{"section", finding.section},
          {"name", finding.name},
          {"state", std::string(Name(finding.state))},
          {"detail", finding.detail},
          {"hint", finding.hint}};
}

void Print(const std::vector<Finding>& findings) {
  std::string section;
  for (const Finding& finding : findings) {
    if (finding.section != section) absl::PrintF("%s\n", finding.section);
    section = finding.section;
    absl::PrintF("  %-14s %-7s %s\n", finding.name, Name(finding.state), finding.detail);
    if (!finding.hint.empty()) absl::PrintF("  %-14s %-7s -> %s\n", "", "", finding.hint);
  }
}

int Doctor(const std::string& python, bool json) {
  std::vector<Finding> findings = {FindMachine()};
  FindCompilers(findings);
  FindDevices(findings);
  FindSandbox(findings);
  FindPython(python, findings);
  FindInstallation(findings);
  bool able = true;
  for (const Finding& finding : findings) able = able && finding.state != State::kFailed;
  if (json) {
    nlohmann::json report = {{"version", HONE_VERSION}, {"can_judge", able}, {"findings", nlohmann::json::array()}};
    for (const Finding& finding : findings) report["findings"].push_back(ToJson(finding));
    absl::PrintF("%s\n", report.dump(2, ' ', false, nlohmann::json::error_handler_t::replace));
  } else {
    Print(findings);
    absl::PrintF("%s\n", able ? "This machine can judge candidates on the CPU backend."
                              : "This machine cannot judge candidates: see what failed above.");
  }
  return able ? kDone : kAskedForFailed;
}

}  // namespace

void AddDoctor(CLI::App& app, Action& action) {
  auto python = std::make_shared<std::string>();
  auto json = std::make_shared<bool>(false);
  CLI::App* doctor = app.add_subcommand("doctor", "Says what this machine can do: compilers, devices, sandbox, torch");
  doctor->footer("Exit code: 0 candidates can be judged here, 3 they cannot.\nExample:\n  hone doctor --json");
  doctor->add_option("--python", *python, "Interpreter to look at; default: $HONE_PYTHON, else the build's");
  doctor->add_flag("--json", *json, "One JSON object");
  doctor->callback([python, json, &action] { action = [python, json] { return Doctor(*python, *json); }; });
}

}  // namespace hone::cli
