#include "cli/train/worker.h"

#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <memory>
#include <optional>
#include <thread>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/time/clock.h"
#include "base/file.h"
#include "base/progress.h"
#include "base/status_macros.h"
#include "base/steady_time.h"
#include "cli/train/episodes.h"
#include "cli/train/phases.h"
#include "cli/train/setup.h"
#include "cli/train/verifier_probe.h"
#include "rewards/compose/pipeline.h"
#include "trainer/comm/weight_server.h"
#include "trainer/coordinator/worker.h"

namespace hone::cli {
namespace {

constexpr absl::Duration kWeightsWait = absl::Seconds(10);  // of one question for weights
constexpr absl::Duration kReadyWait = absl::Seconds(2);     // where a newer version is there but none is needed
constexpr absl::Duration kUnwind = absl::Seconds(20);       // from the signal to the end, whatever still runs

// "host:port" -> "host"; of a Unix socket, this host.
std::string HostOf(const std::string& address) {
  if (absl::StartsWith(address, "unix:")) return "127.0.0.1";
  const size_t colon = address.rfind(':');
  std::string host = address.substr(0, colon);
  if (host.size() > 2 && host.front() == '[') host = host.substr(1, host.size() - 2);
  return host;
}

// A run as this worker samples for it.
class JoinedRun {
 public:
  static absl::StatusOr<std::unique_ptr<JoinedRun>> Create(const trainer::RunDescription& run, const WorkerStart& start) {
    HONE_ASSIGN_OR_RETURN(TempFolder folder, TempFolder::Create("hone-worker"));
    auto joined = std::unique_ptr<JoinedRun>(new JoinedRun(run, std::move(folder), HostOf(start.coordinator)));
    HONE_RETURN_IF_ERROR(joined->Prepare(start.config));
    return joined;
  }

  const WorkerConfig& config() const { return config_; }
  int64_t groups() const {
    if (config_.groups > 0) return config_.groups;
    return std::clamp<int64_t>(config_.engine.max_running / settings_.rl.group_size, 1, 1024);
  }
  int64_t version() const { return held_; }

  /// Whether `run` is another start of the same.
  bool SameAs(const trainer::RunDescription& run) const { return run.settings == run_.settings && run.files == run_.files; }
  /// Its weights may be older than those that are here: all are asked for again.
  absl::Status GoOnWith(const trainer::RunDescription& run) {
    run_ = run;
    link_.reset();
    held_ = -1;
    return setup_->RemakeEngine();
  }

  absl::StatusOr<trainer::SampledWork> Sample(absl::Span<const trainer::LeasedGroup> leases, trainer::WorkerLink& coordinator,
                                              const std::atomic<bool>& stop) {
    HONE_RETURN_IF_ERROR(GetWeights(leases, coordinator, stop));
    std::vector<rollout::GroupRequest> requests;
    for (const trainer::LeasedGroup& lease : leases) {
      requests.push_back(lease.request);
      requests.back().seed = lease.seed;
    }
    rollout::EpisodeDriver driver = MakeDriver(parts_, EpisodesOf(settings_.rl), {.abort = &stop});
    trainer::SampledWork work;
    HONE_ASSIGN_OR_RETURN(work.groups, driver.Run(requests, /*seed=*/0));
    work.seconds = {driver.seconds().generate, driver.seconds().verify};
    return work;
  }

  /// Why the worker must end; OK while it need not.
  const absl::Status& fatal() const { return fatal_; }

 private:
  JoinedRun(const trainer::RunDescription& run, TempFolder folder, std::string host)
      : run_(run), folder_(std::move(folder)), host_(std::move(host)) {}

  absl::Status Prepare(ConfigFile& own) {
    HONE_ASSIGN_OR_RETURN(ConfigFile told, ConfigFile::Parse(run_.settings, "the run's settings"));
    HONE_RETURN_IF_ERROR(told.Read(settings_));
    config_ = DefaultsOf(settings_);
    HONE_RETURN_IF_ERROR(own.Read(config_));
    if (config_.device.dtype != settings_.device.dtype) {
      return absl::InvalidArgumentError(absl::StrCat("device.dtype: ", config_.device.dtype, ", but the run's weights are ",
                                                     settings_.device.dtype));
    }
    for (const auto& [name, bytes] : run_.files) {
      if (absl::StrContains(name, '/')) return absl::DataLossError(absl::StrCat("the run sent a file called ", name));
      HONE_RETURN_IF_ERROR(WriteFileAtomically(absl::StrCat(folder_.path(), "/", name), bytes));
    }
    HONE_ASSIGN_OR_RETURN(PolicySetup setup,
                          PolicySetup::CreateWithoutWeights(folder_.path(), settings_.policy,
                                                            {config_.device, settings_.lora, config_.engine}, config_.threads,
                                                            settings_.seed));
    setup_.emplace(std::move(setup));
    HONE_RETURN_IF_ERROR(setup_->ConnectVerifier(config_.verifier, folder_.path() + "/verifier.log"));
    HONE_ASSIGN_OR_RETURN(const rewards::Pipeline pipeline, rewards::Pipeline::Create(settings_.rewards));
    parts_ = setup_->Parts(pipeline.NeededBaselines());
    return ProbeVerifier(*parts_.client, parts_.verify);
  }

  absl::Status GetWeights(absl::Span<const trainer::LeasedGroup> leases, trainer::WorkerLink& coordinator,
                          const std::atomic<bool>& stop) {
    int64_t needed = 0, ready = -1;
    for (const trainer::LeasedGroup& lease : leases) {
      needed = std::max(needed, lease.oldest_version);
      ready = std::max(ready, lease.ready_version);
    }
    bool asked = false;
    while (held_ < needed || (ready > held_ && !asked)) {
      if (stop) return absl::CancelledError("the worker was stopped");
      const absl::Duration wait = held_ < needed ? kWeightsWait : kReadyWait;
      HONE_ASSIGN_OR_RETURN(const std::optional<trainer::WeightGrant> grant,
                            coordinator.AwaitWeights(held_, link_ != nullptr && link_->whole(), wait));
      asked = true;
      if (grant) HONE_RETURN_IF_ERROR(Receive(*grant));
    }
    return absl::OkStatus();
  }

  absl::Status Receive(const trainer::WeightGrant& grant) {
    const bool first = held_ < 0;
    const at::Device device = setup_->decoder().parameters().leaves()[0].value.device();
    if (grant.fresh) {
      link_.reset();
      HONE_ASSIGN_OR_RETURN(link_, trainer::WeightLink::Meet(/*learner=*/false, host_, run_.store_port, grant.channel, device,
                                                             {grant.nccl, absl::Seconds(settings_.workers.lease_s)}));
    }
    const std::vector<policy::Leaf> leaves = trainer::SyncedLeaves(setup_->decoder(), first);
    const absl::Status received = setup_->engine().UpdateWeights([&]() -> absl::StatusOr<int64_t> {
      HONE_ASSIGN_OR_RETURN(const trainer::WeightUpdate update, link_->channel().Receive(leaves, held_));
      held_ = update.version;
      return update.version;
    });
    if (!received.ok()) {
      link_.reset();
      held_ = -1;
      if (absl::IsFailedPrecondition(received)) return End(received);
      return received;
    }
    if (!first) return absl::OkStatus();
    const absl::Status agreed = TestSampler(settings_.rl, setup_->engine(), setup_->decoder());
    return absl::IsFailedPrecondition(agreed) ? End(agreed) : agreed;
  }

  absl::Status End(const absl::Status& why) {
    fatal_ = why;
    return absl::CancelledError(why.message());
  }

  trainer::RunDescription run_;
  TempFolder folder_;  // the policy without weights, and the verifier's log
  const std::string host_;
  TrainConfig settings_;
  WorkerConfig config_;
  std::optional<PolicySetup> setup_;
  RolloutParts parts_;
  std::unique_ptr<trainer::WeightLink> link_;
  int64_t held_ = -1;
  absl::Status fatal_;
};

// Ends the process some time after the signal: by then the leases are back, and whatever still runs is not needed.
std::jthread EndLate(const std::atomic<bool>& stop) {
  return std::jthread([&stop](std::stop_token done) {
    SteadyTime asked = SteadyTime::InfiniteFuture();
    while (!done.stop_requested()) {
      absl::SleepFor(absl::Milliseconds(100));
      if (stop) asked = std::min(asked, SteadyTime::Now());
      if (SteadyTime::Now() - asked > kUnwind) {
        std::fprintf(stderr, "hone: stopped with verdicts still open\n");
        _exit(0);
      }
    }
  });
}

trainer::WorkerOptions OptionsOf(const WorkerStart& start, const WorkerConfig& config, int64_t groups, const std::atomic<bool>& stop) {
  trainer::WorkerOptions options;
  options.coordinator = start.coordinator;
  options.name = start.name;
  options.groups = groups;
  options.unreachable = absl::Seconds(config.patience_s);
  options.stop = &stop;
  options.on_wait = [last = std::string()](const std::string& what) mutable {
    if (what != last) std::fprintf(stderr, "hone: %s\n", what.c_str());
    last = what;
  };
  return options;
}

}  // namespace

WorkerConfig DefaultsOf(const TrainConfig& run) {
  WorkerConfig config;
  config.threads = run.threads;
  config.device = run.device;
  config.engine = run.engine;
  config.verifier = run.verifier;
  return config;
}

absl::Status RunWorkerProcess(WorkerStart start) {
  WorkerConfig config;  // what is wrong with it is said before anybody is waited for
  HONE_RETURN_IF_ERROR(start.config.Read(config));
  const std::atomic<bool>& stop = WatchForInterrupt();
  const std::jthread end_late = EndLate(stop);
  std::unique_ptr<JoinedRun> joined;
  Progress progress("worker");
  int64_t groups = 0;
  while (true) {
    HONE_ASSIGN_OR_RETURN(std::unique_ptr<trainer::WorkerLink> link,
                          trainer::WorkerLink::Create(OptionsOf(start, config, joined ? joined->groups() : 1, stop)));
    absl::StatusOr<trainer::RunDescription> run = link->Join();
    if (absl::IsCancelled(run.status())) return absl::OkStatus();
    HONE_RETURN_IF_ERROR(run.status());
    if (joined != nullptr && joined->SameAs(*run)) {
      HONE_RETURN_IF_ERROR(joined->GoOnWith(*run));
    } else {
      joined.reset();
      HONE_ASSIGN_OR_RETURN(joined, JoinedRun::Create(*run, start));
      config = joined->config();
      HONE_ASSIGN_OR_RETURN(link, trainer::WorkerLink::Create(OptionsOf(start, config, joined->groups(), stop)));
      link->Use(*run);
    }
    const auto sample = [&](absl::Span<const trainer::LeasedGroup> leases) {
      absl::StatusOr<trainer::SampledWork> work = joined->Sample(leases, *link, stop);
      if (work.ok()) {
        groups += static_cast<int64_t>(work->groups.size());
        progress.Update(groups, absl::StrFormat("groups, policy version %d, %.1f s writing, %.1f s waiting for verdicts",
                                                joined->version(), work->seconds.generate, work->seconds.verify));
      }
      return work;
    };
    const absl::StatusOr<trainer::WorkerReport> report = link->Work(sample);
    if (absl::IsAborted(report.status())) continue;  // the run was started anew
    link->Leave();
    HONE_RETURN_IF_ERROR(joined->fatal());
    HONE_RETURN_IF_ERROR(report.status());
    progress.Finish(absl::StrFormat("%d groups; %s", groups, stop ? "stopped" : "the run is over"));
    return absl::OkStatus();
  }
}

}  // namespace hone::cli
