#include "verifier/lane/lane.h"

#include <algorithm>
#include <atomic>
#include <filesystem>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/synchronization/mutex.h"
#include "base/file.h"
#include "base/status_macros.h"
#include "base/steady_time.h"
#include "verifier/device/cuda/driver.h"
#include "verifier/device/musa/dialect.h"
#include "verifier/lane/affinity.h"
#include "verifier/lane/buffers.h"
#include "verifier/lane/checker.h"
#include "verifier/lane/findings.h"
#include "verifier/lane/observer.h"
#include "verifier/lane/reference_worker.h"
#include "verifier/lane/seeds.h"
#include "verifier/lane/task_sets.h"
#include "verifier/lane/timer.h"
#include "verifier/runner/python_environment.h"
#include "verifier/runner/runner_host.h"

namespace hone::verifier {
namespace {

constexpr int kRunnersAhead = 3;     // checked, timed, scalar baseline
constexpr int kGpuRunnersAhead = 2;  // the driver starts processes one after the other, and each holds memory
constexpr int64_t kContextBytes = int64_t{560} << 20;  // of a GPU's memory, for one that waits; all of them get an eighth
constexpr int kGpuPythonAhead = 4;   // an interpreter has much to do besides, which several do at the same time:
constexpr int kGpuPythonLeast = 2;   // they start together, and timings wait for them every third time

/// Of a runner's context: each channel to the device beyond the first costs a start several milliseconds and an end as many.
/// Two streams of a candidate still run at the same time.
constexpr char kFewChannels[] = "CUDA_DEVICE_MAX_CONNECTIONS=2";

/// What the judge's children need to find the device: nothing for the CPU.
std::vector<std::string> DeviceEnvironment(const Device& device) {
  const DeviceProperties& properties = device.properties();
  if (properties.emulated) return {};
  std::vector<std::string> environment;
  if (!properties.unique_id.empty()) {
    environment.push_back(absl::StrCat(device.table().dialect->visible_devices, "=", properties.unique_id));
  }
  return environment;
}

class DeviceLane : public Lane {
 public:
  static absl::StatusOr<std::unique_ptr<Lane>> Create(const LaneOptions& options) {
    HONE_ASSIGN_OR_RETURN(SecretSeeds seeds, SecretSeeds::Create());
    std::unique_ptr<DeviceLane> lane(new DeviceLane(options, std::move(seeds)));
    HONE_ASSIGN_OR_RETURN(lane->device_, Device::Open(options.device));
    const DeviceTable& table = lane->device_->table();
    if (table.probe != nullptr) {
      HONE_RETURN_IF_ERROR(lane->device_->Check(table.probe(lane->device_->get()), "its probe"));
    }

    const std::filesystem::path prefix = std::filesystem::path(ProgramFolder()).parent_path();
    ReferenceWorkerOptions worker;
    worker.python = options.python;
    worker.script = ResourcePath("lane/reference_worker.py");
    worker.cpu_core = options.cpu_core;
    lane->KeepApart();
    worker.cores = lane->child_cores_;
    if (!lane->device_->properties().emulated) {
      worker.device = lane->device_->table().torch_device;
      worker.environment = DeviceEnvironment(*lane->device_);
    }
    HONE_ASSIGN_OR_RETURN(lane->worker_, ReferenceWorker::Create(std::move(worker)));

    RunnerHostOptions host;
    host.program = (prefix / "bin" / "hone-runner").string();
    host.sandbox = options.sandbox;
    host.cpu_core = options.cpu_core;
    host.cores = lane->child_cores_;
    HONE_RETURN_IF_ERROR(lane->ChooseRunners(prefix.string(), &host));
    lane->MakeObserver(host);
    lane->cache_ = std::make_unique<TaskSetsCache>(lane->device_.get(), lane->worker_.get(), &lane->seeds_,
                                                     LimitsFor(lane->device_->properties(), options.task_memory_share));
    lane->ChooseRunnersAhead();
    HONE_RETURN_IF_ERROR(lane->StartRunners(std::move(host), lane->native_));
    return lane;
  }

  absl::StatusOr<Verdict> Judge(const LaneJob& job) override { return OrCancelled(JudgeJob(job)); }
  absl::StatusOr<Signature> Describe(const Task& task) override { return OrCancelled(worker_->Describe(task)); }

  /// Not for Python candidates: an interpreter with a device holds gigabytes.
  bool WorkAhead() override { return health_.ok() && native_.host->ReadyOneMore(runners_ahead_); }

  LaneFacts Facts() const override { return {device_->properties().name, native_.host->sandbox()}; }

  RunnerSupply Supply() const override { return supply_; }

  void Interrupt() override {
    interrupted_ = true;
    worker_->Interrupt();
    native_.host->Interrupt();
    absl::MutexLock lock(&python_mutex_);
    if (python_.host != nullptr) python_.host->Interrupt();
  }

 private:
  DeviceLane(LaneOptions options, SecretSeeds seeds) : options_(std::move(options)), seeds_(std::move(seeds)) {}

  /// The candidate runners of one kind of artefact, and who judges with them.
  struct Runners {
    std::unique_ptr<RunnerHost> host;
    std::unique_ptr<Checker> checker;
    std::unique_ptr<Timer> timer;
  };

  absl::Status StartRunners(RunnerHostOptions host, Runners& runners) {
    HONE_ASSIGN_OR_RETURN(std::unique_ptr<RunnerHost> started, RunnerHost::Create(std::move(host)));
    runners.checker = std::make_unique<Checker>(device_.get(), started.get(), &seeds_);
    runners.timer = std::make_unique<Timer>(device_.get(), started.get(),
                                            native_.host != nullptr ? native_.host.get() : started.get(), &seeds_,
                                            worker_.get(), cache_.get(), options_.cpu_core);
    PrepareRunners(*started);
    absl::MutexLock lock(&python_mutex_);
    runners.host = std::move(started);
    return absl::OkStatus();
  }

  /// Python candidates need a fork server with torch in it, which a lane of native candidates never pays for.
  absl::StatusOr<Runners*> RunnersFor(Format format) {
    if (format == Format::kNative) return &native_;
    if (python_.host != nullptr) return &python_;
    HONE_ASSIGN_OR_RETURN(const PythonEnvironment python, PythonEnvironment::Probe(options_.python));
    RunnerHostOptions host;
    host.program = ResourcePath("torch/torch_runner.py");
    host.interpreter = python.executable;
    host.folders = python.folders;
    // One thread; memory that is reused in place of being returned after each call, as in the reference worker.
    host.environment = {"OMP_NUM_THREADS=1",
                        "MKL_NUM_THREADS=1",
                        "OPENBLAS_NUM_THREADS=1",
                        "MALLOC_MMAP_THRESHOLD_=33554432",
                        "MALLOC_TRIM_THRESHOLD_=1073741824",
                        "MALLOC_TOP_PAD_=16777216",
                        "HOME=/tmp",
                        "LANG=C.UTF-8",
                        "PATH=/usr/bin:/bin"};
    if (OnGpu()) {
      host.folders.push_back("/usr");  // Triton compiles a launcher for each kernel
      HONE_ASSIGN_OR_RETURN(host.gpu_driver, TorchDriver());
      host.gpu_backend = device_->table().torch_device;
      host.devices = device_->properties().nodes;
      const std::vector<std::string> found = DeviceEnvironment(*device_);
      host.environment.insert(host.environment.end(), found.begin(), found.end());
      host.environment.emplace_back(kFewChannels);
    } else {
      host.environment.push_back("TRITON_INTERPRET=1");
    }
    if (StandsIn()) OfferTorchMusa(host);
    host.start_timeout = absl::Seconds(120);
    host.sandbox = options_.sandbox;
    host.cpu_core = options_.cpu_core;
    host.cores = child_cores_;
    HONE_RETURN_IF_ERROR(StartRunners(std::move(host), python_));
    return &python_;
  }

  /// What stands in for torch_musa: the runner makes the module and loads the runtime (torch_runner.py).
  static void OfferTorchMusa(RunnerHostOptions& host) {
    const std::string runtime = InstalledPath(kCompatRuntime);
    host.environment.push_back(absl::StrCat("HONE_MUSA_RUNTIME=", runtime));
    host.folders.push_back(runtime);
  }

  /// Whether a compatibility toolchain's device is open.
  bool StandsIn() const { return device_->table().name != std::string(device_->table().backend); }

  /// Where time is the wall's, a core for the judge alone: it waits awake for a runner's answer, and whoever shared its core
  /// would keep it from seeing that. The driver's threads were there before and stay where they are.
  void KeepApart() {
    const std::vector<int> cores = AllowedCores();
    if (!device_->table().clock_is_wall || cores.size() < 3) return;
    child_cores_.assign(cores.begin() + 1, cores.end());
    own_core_.emplace(std::vector<int>{cores.front()});
  }

  bool OnGpu() const { return !device_->properties().emulated; }

  /// As many as asked for, or as the device has room for.
  void ChooseRunnersAhead() {
    runners_ahead_ = options_.runners_ahead;
    if (OnGpu()) runners_ahead_ = std::min<int>(runners_ahead_, static_cast<int>(device_->properties().memory_bytes / 8 / kContextBytes));
    if (runners_ahead_ > 0) options_.log.Info("an idle lane starts runners", {{"ahead", runners_ahead_}, {"asked_for", options_.runners_ahead}});
  }
  void PrepareRunners(RunnerHost& host) const {
    if (!OnGpu()) return host.Prepare(kRunnersAhead);
    if (!host.interpreted()) return host.Prepare(kGpuRunnersAhead);
    host.Prepare(kGpuPythonAhead, kGpuPythonLeast);
  }

  /// What runners load and see.
  absl::Status ChooseRunners(const std::string& prefix, RunnerHostOptions* host) const {
    const DeviceProperties& properties = device_->properties();
    const DeviceTable& table = device_->table();
    if (!OnGpu()) {
      host->libraries = {prefix + "/lib/libhone_cpu_runtime.so"};
      if (StandsIn()) host->libraries.push_back(absl::StrCat(prefix, "/", kCompatRuntime));
      host->switches_kernels = true;
      return absl::OkStatus();
    }
    const GpuDialect& dialect = *table.dialect;
    const std::string runtime = FindGpuLibrary(dialect, dialect.runtime_libraries, {});
    if (runtime.empty()) {
      return absl::FailedPreconditionError(absl::StrCat("no runtime library (", dialect.runtime_libraries[0], "): set ",
                                                        dialect.toolkit_variables[0], " to the toolkit's folder"));
    }
    host->switches_kernels = table.backend == std::string("cuda");
    if (host->switches_kernels) host->libraries = {prefix + "/lib/libhone_launches.so"};  // before the runtime
    host->libraries.push_back(runtime);
    if (StandsIn()) {
      HONE_RETURN_IF_ERROR(AddDriverBehind(host));
      host->libraries.push_back(absl::StrCat(prefix, "/", kCompatRuntime));
    }
    host->gpu_backend = table.name;
    host->gpu_driver = properties.driver_library;
    host->devices = properties.nodes;
    for (std::string& setting : DeviceEnvironment(*device_)) host->environment.push_back(std::move(setting));
    host->environment.push_back("CUDA_CACHE_DISABLE=1");
    host->environment.emplace_back(kFewChannels);
    return absl::OkStatus();
  }

  /// The driver's library under PyTorch's device.
  absl::StatusOr<std::string> TorchDriver() const {
    const DeviceTable& table = device_->table();
    if (table.torch_device == std::string(table.backend)) return device_->properties().driver_library;
    GpuDriver driver;
    std::string error;
    if (!driver.Load(kCudaDialect, "", &error)) return absl::FailedPreconditionError(error);
    return driver.path;
  }

  /// The compatibility driver opens CUDA's by its name, or where this says, for in a sandbox there may be no names.
  static absl::Status AddDriverBehind(RunnerHostOptions* host) {
    GpuDriver driver;
    std::string error;
    if (!driver.Load(kCudaDialect, "", &error)) return absl::FailedPreconditionError(error);
    if (!absl::StartsWith(driver.path, "/lib") && !absl::StartsWith(driver.path, "/usr/lib")) {
      host->folders.push_back(driver.path);  // else every sandbox has it
    }
    host->environment.push_back(absl::StrCat(kCompatDriverVariable, "=", driver.path));
    return absl::OkStatus();
  }

  /// Watches native candidates with the tools of the CUDA toolkit that is here; other devices have none.
  void MakeObserver(const RunnerHostOptions& host) {
    ObserverOptions options;
    options.program = host.program;
    options.sandbox = host.sandbox.empty() ? "bubblewrap" : host.sandbox;
    options.libraries = host.libraries;
    options.gpu_backend = host.gpu_backend;
    options.gpu_driver = host.gpu_driver;
    options.devices = host.devices;
    options.environment = host.environment;
    const bool nvidia = OnGpu() && device_->table().dialect == &kCudaDialect;
    const std::string toolkit = nvidia ? ToolkitFolder(kCudaDialect) : "";
    const auto tool = [&](const char* name) {
      const std::string path = absl::StrCat(toolkit, "/bin/", name);
      return !toolkit.empty() && FileExists(path) ? path : std::string();
    };
    options.checker = tool("compute-sanitizer");
    options.profiler = tool("ncu");
    observer_ = std::make_unique<Observer>(device_.get(), std::move(options));
  }

  template <class T>
  absl::StatusOr<T> OrCancelled(absl::StatusOr<T> result) const {
    if (interrupted_ && !result.ok()) return absl::CancelledError("the lane was interrupted");
    return result;
  }

  /// What checking and timing found out.
  struct Outcome {
    std::optional<Finding> finding;
    int calls = 0;
    int right = 0;
    std::vector<Timing> timings;
    std::vector<RuleHit> rules;  // that spoke without rejecting
    double coverage = -1;        // -1: unknown
    const CheckCase* watched = nullptr;  // what a tool should watch: where it failed, or the timed shape
    PhaseSeconds seconds;
  };

  absl::StatusOr<Verdict> JudgeJob(const LaneJob& job) {
    if (job.build.status != VerdictStatus::kOk) return absl::InvalidArgumentError("the job's build did not succeed");
    HONE_RETURN_IF_ERROR(health_);
    HONE_ASSIGN_OR_RETURN(Runners * runners, RunnersFor(job.build.format));
    supply_.ahead = runners->host->ahead();
    const absl::Duration waited_before = runners->host->waited();
    const absl::Cleanup count_waiting = [&, host = runners->host.get()] {
      supply_.waited_s = absl::ToDoubleSeconds(host->waited() - waited_before);
    };
    HONE_ASSIGN_OR_RETURN(Outcome outcome, CheckAndTime(job, *runners));
    // A process that somebody else killed gets a second chance: the machine may have run out of memory for another's sake.
    if (outcome.finding && outcome.finding->from_outside) {
      HONE_ASSIGN_OR_RETURN(outcome, CheckAndTime(job, *runners));
    }
    if (outcome.finding && outcome.finding->status != VerdictStatus::kIncorrect) ProveHealth(*runners);
    Verdict verdict = Begin(job, *runners);
    Observe(job, outcome, verdict);
    PrepareRunners(*runners->host);
    verdict.rules.insert(verdict.rules.end(), outcome.rules.begin(), outcome.rules.end());
    if (outcome.coverage >= 0) verdict.coverage = outcome.coverage;
    verdict.seconds = outcome.seconds;
    if (outcome.finding) {
      verdict.status = outcome.finding->status;
      verdict.message = std::move(outcome.finding->message);
      verdict.mismatch = std::move(outcome.finding->mismatch);
      if (outcome.finding->rule) verdict.rules.push_back(*std::move(outcome.finding->rule));
    } else {
      verdict.timings = std::move(outcome.timings);
      const bool native = job.build.format == Format::kNative;
      if (native && !job.task.legality.allow_library_kernels) verdict.coverage = 1;  // by construction
    }
    if (verdict.status == VerdictStatus::kOk || verdict.status == VerdictStatus::kIncorrect) {
      verdict.correct_rate = outcome.calls > 0 ? static_cast<double>(outcome.right) / outcome.calls : 0;
    }
    return verdict;
  }

  /// What the protocol asks for besides. A tool that does not work here is no failure of the candidate's or the lane's.
  void Observe(const LaneJob& job, const Outcome& outcome, Verdict& verdict) const {
    const bool native = job.build.format == Format::kNative;
    if (outcome.watched == nullptr || !native || !OnGpu()) return;
    const bool wrong = outcome.finding && (outcome.finding->status == VerdictStatus::kRuntime ||
                                           outcome.finding->status == VerdictStatus::kIncorrect);
    absl::Status status;
    if (job.protocol.sanitize && wrong) {
      absl::StatusOr<std::string> report = observer_->Sanitize(job, *outcome.watched);
      status = report.status();
      if (report.ok()) verdict.sanitizer_report = report->empty() ? "no errors found" : *std::move(report);
    }
    if (job.protocol.profile && !outcome.finding) {
      absl::StatusOr<std::vector<KernelProfile>> profile = observer_->Profile(job, *outcome.watched);
      status = profile.status();
      if (profile.ok()) verdict.profile = *std::move(profile);
    }
    if (!status.ok()) verdict.rules.push_back({"not_observed", false, std::string(status.message())});
  }

  /// After a candidate that faulted or was killed: a device that no longer computes rightly is a lane's end. The next one on
  /// it starts when a probe passes, and the service waits longer after each that does not.
  void ProveHealth(const Runners& runners) {
    if (device_->table().probe == nullptr) return;
    runners.host->AwaitGone();
    health_ = device_->Check(device_->table().probe(device_->get()), "its probe after a faulty candidate");
  }

  absl::StatusOr<Outcome> CheckAndTime(const LaneJob& job, Runners& runners) {
    Outcome outcome;
    Budget budget(absl::Milliseconds(job.protocol.run_timeout_ms));
    const SteadyTime start = SteadyTime::Now();
    HONE_ASSIGN_OR_RETURN(TaskSets * sets, [&] {
      const auto work = budget.CountWork();
      return cache_->Get(job.task, job.signature, job.protocol, job.build.format);
    }());
    const auto count_overhead = [&] {
      outcome.seconds.lane_overhead = absl::ToDoubleSeconds(SteadyTime::Now() - start - budget.work());
    };
    HONE_ASSIGN_OR_RETURN(CheckResult checked, runners.checker->Check(job, *sets, budget));
    const SteadyTime timing = SteadyTime::Now();
    outcome.seconds.check = absl::ToDoubleSeconds(timing - start);
    outcome.calls = checked.calls;
    outcome.right = checked.right;
    outcome.rules = std::move(checked.rules);
    outcome.coverage = checked.coverage;
    outcome.finding = std::move(checked.finding);
    outcome.watched = outcome.finding ? checked.failed : &sets->cases.back();
    count_overhead();
    if (outcome.finding || job.protocol.baselines.empty()) return outcome;
    HONE_ASSIGN_OR_RETURN(TimeResult timed, runners.timer->Time(job, *sets, checked.launches, budget, std::move(checked.opened)));
    outcome.seconds.time = absl::ToDoubleSeconds(SteadyTime::Now() - timing);
    LogTimes(job, timed);
    outcome.finding = std::move(timed.finding);
    outcome.watched = &sets->cases.back();
    if (outcome.finding) {
      outcome.right = 0;  // wrong when timed: what the checks said was worth nothing
    } else {
      outcome.calls += timed.calls;
      outcome.right += timed.right;
    }
    outcome.timings = std::move(timed.timings);
    if (timed.throttled > 0) {
      outcome.rules.push_back({"throttled_clock", false, absl::StrCat(timed.throttled, " rounds ran at less than three quarters of the "
                                                                      "device's clock and do not count")});
    }
    count_overhead();
    return outcome;
  }

  void LogTimes(const LaneJob& job, const TimeResult& timed) const {
    const TimeAccount& account = timed.account;
    const auto ms = [](absl::Duration time) { return absl::ToDoubleMilliseconds(time); };
    const auto microseconds = [](const std::vector<double>& ns) {
      return absl::StrJoin(ns, " ", [](std::string* text, double value) { absl::StrAppend(text, value / 1e3); });
    };
    options_.log.Debug("timed", {{"trace", job.trace_id},
                                 {"task", job.task.id},
                                 {"rounds", account.rounds},
                                 {"quiet_ms", ms(account.quiet)},
                                 {"sets_ms", ms(account.sets)},
                                 {"staging_ms", ms(account.staging)},
                                 {"candidate_ms", ms(account.candidate)},
                                 {"baselines_ms", ms(account.baselines)},
                                 {"comparing_ms", ms(account.comparing)},
                                 {"candidate_us", microseconds(timed.candidate_ns)},
                                 {"baseline_us", microseconds(timed.baseline_ns)}});
  }

  Verdict Begin(const LaneJob& job, const Runners& runners) const {
    Verdict verdict;
    verdict.status = VerdictStatus::kOk;
    verdict.compiler_output = job.build.compiler_output;
    verdict.rules = job.build.rules;
    verdict.toolchain = job.build.toolchain;
    verdict.protocol = job.protocol.id;
    verdict.device = device_->properties().name;
    verdict.clock_mhz = device_->properties().clock_mhz;
    double mhz = 0;
    const DeviceTable& table = device_->table();
    if (table.measure_clock != nullptr && table.measure_clock(device_->get(), &mhz) == 0 && mhz > 0) verdict.clock_mhz = mhz;
    verdict.sandbox = runners.host->sandbox();
    verdict.seed_id = seeds_.Id();
    return verdict;
  }

  std::atomic<bool> interrupted_ = false;
  int runners_ahead_ = 0;
  RunnerSupply supply_;
  absl::Status health_;  // of the device, as the last probe left it
  const LaneOptions options_;
  absl::Mutex python_mutex_;  // guards the hosts' pointers against Interrupt
  std::vector<int> child_cores_;        // of worker and runners; empty: any
  std::optional<ScopedCores> own_core_;  // of the thread that made the lane, which is the one that judges
  // In the order of need: what stands below uses what stands above.
  SecretSeeds seeds_;
  std::unique_ptr<Device> device_;
  std::unique_ptr<ReferenceWorker> worker_;
  std::unique_ptr<TaskSetsCache> cache_;
  std::unique_ptr<Observer> observer_;
  Runners native_;
  Runners python_;  // empty until a Python candidate comes
};

}  // namespace

absl::StatusOr<std::unique_ptr<Lane>> Lane::Create(const LaneOptions& options) { return DeviceLane::Create(options); }

}  // namespace hone::verifier
