#include "verifier/lane/lane.h"

#include <atomic>
#include <filesystem>

#include "absl/time/clock.h"
#include "base/file.h"
#include "base/status_macros.h"
#include "verifier/lane/buffers.h"
#include "verifier/lane/checker.h"
#include "verifier/lane/findings.h"
#include "verifier/lane/reference_worker.h"
#include "verifier/lane/seeds.h"
#include "verifier/lane/task_sets.h"
#include "verifier/lane/timer.h"
#include "verifier/runner/runner_host.h"

namespace hone::verifier {
namespace {

constexpr int64_t kSetsLimitBytes = int64_t{256} << 20;
constexpr int kRunnersAhead = 3;  // checked, timed, scalar baseline

class DeviceLane : public Lane {
 public:
  static absl::StatusOr<std::unique_ptr<Lane>> Create(const LaneOptions& options) {
    HONE_ASSIGN_OR_RETURN(SecretSeeds seeds, SecretSeeds::Create());
    std::unique_ptr<DeviceLane> lane(new DeviceLane(std::move(seeds)));
    HONE_ASSIGN_OR_RETURN(lane->device_, Device::Open(options.device));

    const std::filesystem::path prefix = std::filesystem::path(ProgramFolder()).parent_path();
    ReferenceWorkerOptions worker;
    worker.python = options.python;
    worker.script = ResourcePath("lane/reference_worker.py");
    worker.cpu_core = options.cpu_core;
    HONE_ASSIGN_OR_RETURN(lane->worker_, ReferenceWorker::Create(std::move(worker)));

    RunnerHostOptions host;
    host.program = (prefix / "bin" / "hone-runner").string();
    host.sandbox = options.sandbox;
    host.cpu_core = options.cpu_core;
    host.libraries = {(prefix / "lib" / "libhone_cpu_runtime.so").string()};
    HONE_ASSIGN_OR_RETURN(lane->host_, RunnerHost::Create(std::move(host)));

    lane->cache_ = std::make_unique<TaskSetsCache>(lane->device_.get(), lane->worker_.get(), &lane->seeds_,
                                                   kSetsLimitBytes);
    lane->checker_ = std::make_unique<Checker>(lane->device_.get(), lane->host_.get(), &lane->seeds_);
    lane->timer_ = std::make_unique<Timer>(lane->device_.get(), lane->host_.get(), &lane->seeds_, lane->worker_.get(),
                                           lane->cache_.get(), options.cpu_core);
    lane->host_->Prepare(kRunnersAhead);
    return lane;
  }

  absl::StatusOr<Verdict> Judge(const LaneJob& job) override { return OrCancelled(JudgeJob(job)); }
  absl::StatusOr<Signature> Describe(const Task& task) override { return OrCancelled(worker_->Describe(task)); }

  LaneFacts Facts() const override { return {device_->properties().name, host_->sandbox()}; }

  void Interrupt() override {
    interrupted_ = true;
    worker_->Interrupt();
    host_->Interrupt();
  }

 private:
  explicit DeviceLane(SecretSeeds seeds) : seeds_(std::move(seeds)) {}

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
    PhaseSeconds seconds;
  };

  absl::StatusOr<Verdict> JudgeJob(const LaneJob& job) {
    if (job.build.status != VerdictStatus::kOk) return absl::InvalidArgumentError("the job's build did not succeed");
    HONE_ASSIGN_OR_RETURN(Outcome outcome, CheckAndTime(job));
    // A process that somebody else killed gets a second chance: the machine may have run out of memory for another's sake.
    if (outcome.finding && outcome.finding->from_outside) {
      HONE_ASSIGN_OR_RETURN(outcome, CheckAndTime(job));
    }
    host_->Prepare(kRunnersAhead);
    Verdict verdict = Begin(job);
    verdict.seconds = outcome.seconds;
    if (outcome.finding) {
      verdict.status = outcome.finding->status;
      verdict.message = std::move(outcome.finding->message);
      verdict.mismatch = std::move(outcome.finding->mismatch);
      if (outcome.finding->rule) verdict.rules.push_back(*std::move(outcome.finding->rule));
    } else {
      verdict.timings = std::move(outcome.timings);
      if (!job.task.legality.allow_library_kernels) verdict.coverage = 1;  // native: by construction
    }
    if (verdict.status == VerdictStatus::kOk || verdict.status == VerdictStatus::kIncorrect) {
      verdict.correct_rate = outcome.calls > 0 ? static_cast<double>(outcome.right) / outcome.calls : 0;
    }
    return verdict;
  }

  absl::StatusOr<Outcome> CheckAndTime(const LaneJob& job) {
    Outcome outcome;
    Budget budget(absl::Milliseconds(job.protocol.run_timeout_ms));
    const absl::Time start = absl::Now();
    HONE_ASSIGN_OR_RETURN(TaskSets * sets, cache_->Get(job.task, job.signature, job.protocol));
    HONE_ASSIGN_OR_RETURN(CheckResult checked, checker_->Check(job, *sets, budget));
    const absl::Time timing = absl::Now();
    outcome.seconds.check = absl::ToDoubleSeconds(timing - start);
    outcome.calls = checked.calls;
    outcome.right = checked.right;
    outcome.finding = std::move(checked.finding);
    if (outcome.finding || job.protocol.baselines.empty()) return outcome;
    HONE_ASSIGN_OR_RETURN(TimeResult timed, timer_->Time(job, *sets, budget));
    outcome.seconds.time = absl::ToDoubleSeconds(absl::Now() - timing);
    outcome.calls += timed.calls;
    outcome.right += timed.right;
    outcome.finding = std::move(timed.finding);
    outcome.timings = std::move(timed.timings);
    return outcome;
  }

  Verdict Begin(const LaneJob& job) const {
    Verdict verdict;
    verdict.status = VerdictStatus::kOk;
    verdict.compiler_output = job.build.compiler_output;
    verdict.rules = job.build.rules;
    verdict.toolchain = job.build.toolchain;
    verdict.protocol = job.protocol.id;
    verdict.device = device_->properties().name;
    verdict.clock_mhz = device_->properties().clock_mhz;
    verdict.sandbox = host_->sandbox();
    verdict.seed_id = seeds_.Id();
    return verdict;
  }

  std::atomic<bool> interrupted_ = false;
  // In the order of need: what stands below uses what stands above.
  SecretSeeds seeds_;
  std::unique_ptr<Device> device_;
  std::unique_ptr<ReferenceWorker> worker_;
  std::unique_ptr<RunnerHost> host_;
  std::unique_ptr<TaskSetsCache> cache_;
  std::unique_ptr<Checker> checker_;
  std::unique_ptr<Timer> timer_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<Lane>> Lane::Create(const LaneOptions& options) { return DeviceLane::Create(options); }

}  // namespace hone::verifier
